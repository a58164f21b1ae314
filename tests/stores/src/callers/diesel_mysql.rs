//! diesel-async on MySQL and MariaDB.

use std::error::Error as StdError;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use diesel::QueryableByName;
use diesel::sql_types::Text;
use idem_core::BoxError;
use idem_mysql::diesel_async::{
    AsyncConnection, AsyncMysqlConnection, RunQueryDsl, SimpleAsyncConnection,
};
use idem_mysql::{MySqlStore, is_transaction_retryable};
use tokio::sync::Mutex;

use super::{Caller, Calls, Driver, Level, Open, Shop, Work, in_transaction, url_of};
use crate::{Adapter, MySql};

/// An application on diesel-async.
#[derive(Debug, Clone, Copy)]
pub struct DieselMySql;

#[async_trait]
impl Calls for DieselMySql {
    type Base = MySql;

    async fn open(
        &self,
        base: &MySql,
        namespace: &str,
        address: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError> {
        let url = url_of(base, address)?;
        let url = url.as_str().split('?').next().unwrap_or_default();
        Ok(Arc::new(Application {
            store: base.store(namespace).await?,
            payments: MySql::payments(namespace),
            // A socket of the server would lead around the address.
            url: format!("{url}?prefer_socket=false"),
            connections: (0..connections).map(|_| Mutex::new(None)).collect(),
            next: AtomicUsize::new(0),
        }))
    }
}

struct Application {
    store: MySqlStore,
    payments: String,
    url: String,
    connections: Vec<Mutex<Option<AsyncMysqlConnection>>>,
    next: AtomicUsize,
}

impl fmt::Debug for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Application").finish_non_exhaustive()
    }
}

/// The work, for the closure of a transaction, which takes no error but one that it can make of
/// diesel's.
struct Failed(BoxError);

impl From<diesel::result::Error> for Failed {
    fn from(error: diesel::result::Error) -> Self {
        Self(error.into())
    }
}

#[async_trait]
impl Caller for Application {
    async fn transact(&self, level: Level, work: &mut dyn Work) -> Result<(), BoxError> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let mut slot = self.connections[next % self.connections.len()].lock().await;
        // Taken out, because a future that is dropped leaves its connection in the middle of an
        // answer.
        let mut connected = match slot.take() {
            Some(connected) => connected,
            None => AsyncMysqlConnection::establish(&self.url).await?,
        };
        let level = match level {
            Level::Default => "READ COMMITTED",
            Level::Serializable => "SERIALIZABLE",
        };
        let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        connected.batch_execute(&set).await?;
        let (store, payments) = (&self.store, &*self.payments);
        let done = connected.transaction(async |transaction: &mut AsyncMysqlConnection| {
            let mut open = Open {
                store,
                transaction,
                payments,
            };
            work.run(&mut open).await.map_err(Failed)
        });
        let done = done.await.map_err(|failed| failed.0);
        if done.is_ok() || connected.batch_execute("SELECT 1").await.is_ok() {
            *slot = Some(connected);
        }
        done
    }

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}

in_transaction!(MySqlStore, AsyncMysqlConnection);

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

#[async_trait]
impl Driver for AsyncMysqlConnection {
    async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
        Ok(self.batch_execute(sql).await?)
    }

    async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
        let sql = format!("SELECT ({sql}) AS line");
        let lines: Vec<Line> = diesel::sql_query(sql).load(self).await?;
        let line = lines.into_iter().next().ok_or("there is no row")?;
        Ok(line.line)
    }
}
