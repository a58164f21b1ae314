//! diesel-async on PostgreSQL.

use std::error::Error as StdError;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use diesel::QueryableByName;
use diesel::sql_types::Text;
use idem_core::BoxError;
use idem_postgres::diesel_async::{
    AnsiTransactionManager, AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection,
    TransactionManager,
};
use idem_postgres::{PostgresStore, is_transaction_retryable};
use tokio::sync::Mutex;

use super::{Caller, Calls, Driver, Level, Open, Shop, Work, in_transaction, url_of};
use crate::{Adapter, Postgres};

/// An application on diesel-async.
#[derive(Debug, Clone, Copy)]
pub struct DieselPostgres;

#[async_trait]
impl Calls for DieselPostgres {
    type Base = Postgres;

    async fn open(
        &self,
        base: &Postgres,
        namespace: &str,
        address: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError> {
        Ok(Arc::new(Application {
            store: base.store(namespace).await?,
            payments: Postgres::payments(namespace),
            url: url_of(base, address)?.as_str().to_owned(),
            connections: (0..connections).map(|_| Mutex::new(None)).collect(),
            next: AtomicUsize::new(0),
        }))
    }
}

struct Application {
    store: PostgresStore,
    payments: String,
    url: String,
    connections: Vec<Mutex<Option<AsyncPgConnection>>>,
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

/// What diesel's own pools ask before they hand a connection on.
fn is_broken(connection: &mut AsyncPgConnection) -> bool {
    AnsiTransactionManager::is_broken_transaction_manager(connection)
}

#[async_trait]
impl Caller for Application {
    async fn transact(&self, level: Level, work: &mut dyn Work) -> Result<(), BoxError> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let mut connection = self.connections[next % self.connections.len()].lock().await;
        if connection.as_mut().is_none_or(is_broken) {
            *connection = Some(AsyncPgConnection::establish(&self.url).await?);
        }
        let connected = connection.as_mut().ok_or("there is no connection")?;
        let begin = connected.build_transaction();
        let mut begin = match level {
            Level::Default => begin,
            Level::Serializable => begin.serializable(),
        };
        let (store, payments) = (&self.store, &*self.payments);
        let done = begin.run(async |transaction: &mut AsyncPgConnection| {
            let mut open = Open {
                store,
                transaction,
                payments,
            };
            work.run(&mut open).await.map_err(Failed)
        });
        let done = done.await.map_err(|failed| failed.0);
        if done.is_err() && connected.batch_execute("SELECT 1").await.is_err() {
            *connection = None;
        }
        done
    }

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}

in_transaction!(PostgresStore, AsyncPgConnection);

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

#[async_trait]
impl Driver for AsyncPgConnection {
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
