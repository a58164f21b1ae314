//! Where a statement runs: on a connection of a pool, or in a transaction.

use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sqlx::Connections;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Sqlite, SqlitePool};

use crate::config::Config;
use crate::error::{Sent, classify};

pub(crate) type Query<'q> = sqlx::query::Query<'q, sqlx::Sqlite, SqliteArguments>;

/// The connections of a store.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    /// One connection where the store made it, so that the tasks of this process queue for the write lock in
    /// order instead of polling for it.
    pub(crate) writer: SqlitePool,
    /// Reads run beside the writer, on connections that are nobody else's: a pool of sqlx's would ask each of them after
    /// each read whether it still lives. `None` where the caller gave the pool, or the database is in memory: then they
    /// run on the writer's.
    pub(crate) readers: Option<Connections<Sqlite>>,
}

/// Runs single statements and returns all their rows, which are few.
#[derive(Debug)]
pub(crate) enum Session<'s> {
    Pool(&'s Pools, &'s Config),
    Transaction(&'s mut SqliteConnection),
}

impl Session<'_> {
    pub(crate) async fn rows(&mut self, query: Query<'_>, sent: Sent) -> Result<Vec<SqliteRow>> {
        match self {
            Self::Pool(pools, config) => on_pool(pools, config, query, sent).await,
            Self::Transaction(connection) => query
                .fetch_all(&mut **connection)
                .await
                .map_err(|error| classify(error, sent)),
        }
    }
}

async fn on_pool(
    pools: &Pools,
    config: &Config,
    query: Query<'_>,
    sent: Sent,
) -> Result<Vec<SqliteRow>> {
    let mut under_way = Sent::Harmless;
    let work = async {
        match &pools.readers {
            // Who closes the pool closes the store.
            Some(readers) if sent == Sent::Harmless && !pools.writer.is_closed() => {
                on_reader(readers, query).await
            }
            _ => {
                let acquired = pools.writer.acquire().await;
                let mut connection = acquired.map_err(|error| classify(error, Sent::Harmless))?;
                under_way = sent;
                let rows = query.fetch_all(&mut *connection).await;
                rows.map_err(|error| classify(error, sent))
            }
        }
    };
    match tokio::time::timeout(config.timeout(), work).await {
        Ok(result) => result,
        Err(_) => Err(timed_out(config, under_way)),
    }
}

async fn on_reader(readers: &Connections<Sqlite>, query: Query<'_>) -> Result<Vec<SqliteRow>> {
    let at = |error| classify(error, Sent::Harmless);
    let mut lent = readers.lend().await.map_err(at)?;
    let connection = lent.connection().ok_or(sqlx::Error::PoolClosed);
    let rows = query.fetch_all(connection.map_err(at)?).await.map_err(at)?;
    lent.done();
    Ok(rows)
}

pub(crate) fn timed_out(config: &Config, under_way: Sent) -> Error {
    let effect = match under_way {
        Sent::Harmless => Effect::None,
        Sent::Write => Effect::Unknown,
    };
    Error::new(
        ErrorKind::Unavailable,
        effect,
        format!(
            "no answer within {} ms; another connection holds the write lock, or the pool is too small",
            config.timeout().as_millis()
        ),
    )
}
