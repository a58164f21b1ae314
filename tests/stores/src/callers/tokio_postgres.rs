//! tokio-postgres.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use idem_core::BoxError;
use idem_postgres::tokio_postgres::{Client, Config, IsolationLevel, NoTls, Transaction};
use idem_postgres::{PostgresStore, is_transaction_retryable};
use tokio::sync::Mutex;

use super::{Application, Caller, Calls, Driver, Level, Shop, caller, url_of};
use crate::{Adapter, Postgres};

/// An application on tokio-postgres.
#[derive(Debug, Clone, Copy)]
pub struct TokioPostgres;

#[async_trait]
impl Calls for TokioPostgres {
    type Base = Postgres;

    async fn open(
        &self,
        base: &Postgres,
        namespace: &str,
        address: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError> {
        let url = url_of(base, address)?;
        Ok(Arc::new(Application {
            store: base.store(namespace).await?,
            payments: Postgres::payments(namespace),
            connections: Clients {
                config: Config::from_str(url.as_str())?,
                clients: (0..connections).map(|_| Mutex::new(None)).collect(),
                next: AtomicUsize::new(0),
            },
        }))
    }
}

struct Clients {
    config: Config,
    clients: Vec<Mutex<Option<Client>>>,
    next: AtomicUsize,
}

caller!(PostgresStore, Transaction<'_>, is_transaction_retryable,
    |all: Clients, level| transaction in {
    let next = all.next.fetch_add(1, Ordering::Relaxed);
    let mut client = all.clients[next % all.clients.len()].lock().await;
    if client.as_ref().is_none_or(Client::is_closed) {
        let (connected, connection) = all.config.connect(NoTls).await?;
        tokio::spawn(connection);
        *client = Some(connected);
    }
    let client = client.as_mut().ok_or("there is no connection")?;
    let begin = client.build_transaction();
    let mut transaction = match level {
        Level::Default => begin.start().await?,
        Level::Serializable => begin.isolation_level(IsolationLevel::Serializable).start().await?,
    };
});

#[async_trait]
impl Driver for Transaction<'_> {
    async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
        Ok(self.batch_execute(sql).await?)
    }

    async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
        Ok(self.query_one(sql, &[]).await?.try_get(0)?)
    }
}
