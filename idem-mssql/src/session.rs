//! [`Session`]: runs statements on a connection of the pool, or in the caller's transaction.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool::managed::Object;
use idem_core::Result;
use idem_sql::cells::Row;
use idem_sql::executor::{BoundStatement, Executor};
use idem_sql::parameters::{Value, Values};
use tiberius::error::Error as DriverError;

use crate::config::Config;
use crate::dialect::Server;
use crate::error::{Access, classify, is_lock_timeout, is_rolled_back, no_connection, only_reads};
use crate::pool::{Connection, Manager, Pool};
use crate::statements::{Statement, Wait};

/// How often a statement is sent again after deadlocks, and the longest pause after the first.
const MAX_DEADLOCKS: u32 = 5;
const MAX_PAUSE: Duration = Duration::from_millis(10);

/// A statement and its values.
#[derive(Debug, Clone)]
pub(crate) struct Query<'q> {
    statement: &'q Statement,
    /// Locks rows alone: the form of a statement that locks ranges.
    by_rows: Option<&'q Statement>,
    values: Vec<Value<'q>>,
    wait: Wait,
    /// Whether its text begins a transaction and ends it.
    begins: bool,
}

impl<'q> Query<'q> {
    /// Creates a query with these values.
    pub(crate) fn new(statement: &'q Statement, values: Vec<Value<'q>>) -> Self {
        Self {
            statement,
            by_rows: None,
            values,
            wait: Wait::Shortly,
            begins: false,
        }
    }

    /// Creates a query with the statement's values.
    pub(crate) fn of(statement: &'q Statement, values: &'q Values<'_>) -> Result<Self> {
        Ok(Self::new(statement, values.of(&statement.parameters)?))
    }

    /// Sets the same statement with locks on rows alone. It runs in a caller's transaction, and where
    /// a range was not free.
    pub(crate) fn or_by_rows(self, by_rows: Option<&'q Statement>) -> Self {
        Self { by_rows, ..self }
    }

    /// Sets whether the statement waits for a lock that others hold.
    pub(crate) fn waiting(self, wait: Wait) -> Self {
        Self { wait, ..self }
    }

    /// Notes that the text begins a transaction and ends it. After an error it may not have reached
    /// the end. The connection is then closed; otherwise the next statements on it would be part of
    /// that transaction, and be lost with it.
    pub(crate) fn beginning(self) -> Self {
        Self {
            begins: true,
            ..self
        }
    }

    fn with_text(self, text: fn(&'q Statement, Wait) -> Cow<'q, str>) -> BoundStatement<'q> {
        BoundStatement {
            text: text(self.statement, self.wait).into(),
            values: self.values,
            is_persistent: true,
        }
    }
}

/// Runs single statements and returns all their rows, which are few.
#[derive(Debug)]
pub(crate) enum Session<'s> {
    Pool(&'s Pool, &'s Config),
    Transaction(Box<dyn Executor<Error = DriverError> + 's>, Server),
}

impl<'s> Session<'s> {
    pub(crate) async fn rows(&mut self, mut query: Query<'_>, sent: Access) -> Result<Vec<Row>> {
        match self {
            Self::Pool(pool, config) => alone(pool, config, query, sent).await,
            Self::Transaction(executor, server) => {
                let text = match server {
                    Server::Babelfish => Statement::in_transaction_on_babelfish,
                    Server::Microsoft | Server::Other => Statement::in_transaction,
                };
                query.statement = query.by_rows.unwrap_or(query.statement);
                let answer = executor.run(&query.with_text(text)).await;
                Ok(answer.map_err(|error| classify(error, sent))?.rows)
            }
        }
    }

    /// Returns another session on the pool, if this is one.
    pub(crate) fn beside(&self) -> Option<Session<'s>> {
        match *self {
            Self::Pool(pool, config) => Some(Session::Pool(pool, config)),
            Self::Transaction(..) => None,
        }
    }

    /// Returns whether a statement that lost a race may be sent again. Not in a caller's
    /// transaction: the server has rolled it back.
    pub(crate) fn repeats(&self) -> bool {
        matches!(self, Self::Pool(..))
    }
}

/// Sends the statement, and repeats it when the server broke a deadlock with it: it has then been
/// rolled back as a whole. One that locks ranges is repeated with locks on rows, also when a lock was
/// not free in time.
async fn alone(
    pool: &Pool,
    config: &Config,
    mut query: Query<'_>,
    sent: Access,
) -> Result<Vec<Row>> {
    let mut deadlocks = 0;
    loop {
        match on_pool(pool, config, query.clone(), sent).await {
            Err(error) if is_rolled_back(&error) && deadlocks < MAX_DEADLOCKS => {
                deadlocks += 1;
                let pause = MAX_PAUSE.mul_f64(rand::random_range(0.0..=1.0));
                tokio::time::sleep(pause * deadlocks).await;
            }
            Err(error) if is_lock_timeout(&error) && query.by_rows.is_some() => {}
            answer => return answer,
        }
        query.statement = query.by_rows.take().unwrap_or(query.statement);
    }
}

async fn on_pool(pool: &Pool, config: &Config, query: Query<'_>, sent: Access) -> Result<Vec<Row>> {
    let mut under_way = Access::Read;
    let work = async {
        let mut connection = ConnectionGuard::from(pool).await?;
        under_way = sent;
        let begins = query.begins;
        let statement = query.with_text(Statement::alone);
        let answer = Executor::run(&mut *connection, &statement).await;
        let only_reads = answer.as_ref().is_err_and(only_reads);
        if begins && answer.is_err() || only_reads {
            connection.mark_dirty();
        }
        if only_reads {
            // After a failover, the idle ones lead to the old primary, too.
            pool.retain(|_, _| false);
        }
        let answer = answer.map_err(|error| classify(error, sent))?;
        Ok(answer.rows)
    };
    match tokio::time::timeout(config.timeout(), work).await {
        Ok(result) => result,
        Err(_) => Err(under_way.timed_out(config.timeout())),
    }
}

/// A connection of a pool. If it is given back dirty it is closed at once, and does not wait until
/// the pool refuses it: an open transaction on it would hold its locks until the next request for a
/// connection.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    // Dropped first; the broom then closes it.
    object: Object<Manager>,
    broom: Broom,
}

impl ConnectionGuard {
    pub(crate) async fn from(pool: &Pool) -> Result<Self> {
        let object = pool.get().await.map_err(no_connection)?;
        Ok(Self {
            object,
            broom: Broom(None),
        })
    }
}

impl Deref for ConnectionGuard {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.object
    }
}

impl DerefMut for ConnectionGuard {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.object
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if self.object.is_dirty() {
            self.broom.0 = Object::pool(&self.object);
        }
    }
}

/// Closes the dirty connections of a pool when it is dropped.
#[derive(Debug)]
struct Broom(Option<Pool>);

impl Drop for Broom {
    fn drop(&mut self) {
        if let Some(pool) = &self.0 {
            pool.retain(|connection, _| !connection.is_dirty());
        }
    }
}
