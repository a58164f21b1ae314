//! Where a statement runs: on a connection of the pool, or in the caller's transaction.

use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::{Connection, PgPool, Postgres};

use crate::config::{Config, StatementMode};
use crate::error::{Sent, classify};

pub(crate) type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;

/// Runs single statements and returns all their rows, which are few.
#[derive(Debug)]
pub(crate) enum Session<'s> {
    Pool(&'s PgPool, &'s Config),
    Transaction(&'s mut PgConnection, StatementMode),
}

impl Session<'_> {
    pub(crate) async fn rows(&mut self, query: Query<'_>, sent: Sent) -> Result<Vec<PgRow>> {
        match self {
            Self::Pool(pool, config) => on_pool(pool, config, query, sent).await,
            Self::Transaction(connection, mode) => query
                .persistent(*mode == StatementMode::Prepared)
                .fetch_all(&mut **connection)
                .await
                .map_err(|error| classify(error, sent)),
        }
    }
}

async fn on_pool(
    pool: &PgPool,
    config: &Config,
    query: Query<'_>,
    sent: Sent,
) -> Result<Vec<PgRow>> {
    let mut under_way = Sent::Harmless;
    let work = async {
        let connection = pool
            .acquire()
            .await
            .map_err(|error| classify(error, Sent::Harmless))?;
        under_way = sent;
        let rows = match config.statement_mode() {
            StatementMode::Prepared => prepared(connection, query).await,
            StatementMode::Unprepared => unprepared(connection, query).await,
        };
        rows.map_err(|error| classify(error, sent))
    };
    match tokio::time::timeout(config.timeout(), work).await {
        Ok(result) => result,
        Err(_) => Err(timed_out(config, under_way)),
    }
}

async fn prepared(
    mut connection: PoolConnection<Postgres>,
    query: Query<'_>,
) -> Result<Vec<PgRow>, sqlx::Error> {
    query.fetch_all(&mut *connection).await
}

/// The pooler may give every transaction another server, so the unnamed statement is parsed, bound and executed
/// within one.
async fn unprepared(
    connection: PoolConnection<Postgres>,
    query: Query<'_>,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut guard = CloseUnlessDone::new(connection);
    let mut transaction = guard.connection().begin().await?;
    let rows = query.persistent(false).fetch_all(&mut *transaction).await?;
    transaction.commit().await?;
    guard.done();
    Ok(rows)
}

fn timed_out(config: &Config, under_way: Sent) -> Error {
    let effect = match under_way {
        Sent::Harmless => Effect::None,
        Sent::Write => Effect::Unknown,
    };
    Error::new(
        ErrorKind::Unavailable,
        effect,
        format!(
            "no answer within {} ms; a lock is held, the server is overloaded, or the pool is too small",
            config.timeout().as_millis()
        ),
    )
}

/// Closes the connection instead of handing it back to the pool when what was begun on it was not finished.
///
/// A future of sqlx 0.9.0 that is dropped while it begins a transaction leaves it open, and the pool would hand
/// the connection on (<https://github.com/transact-rs/sqlx/issues/4385>).
#[derive(Debug)]
pub(crate) struct CloseUnlessDone {
    connection: PoolConnection<Postgres>,
    done: bool,
}

impl CloseUnlessDone {
    pub(crate) fn new(connection: PoolConnection<Postgres>) -> Self {
        Self {
            connection,
            done: false,
        }
    }

    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// What was begun is finished: the pool may have the connection back.
    pub(crate) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for CloseUnlessDone {
    fn drop(&mut self) {
        if !self.done {
            self.connection.close_on_drop();
        }
    }
}
