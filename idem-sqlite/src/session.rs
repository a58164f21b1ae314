//! Where a statement runs: on a connection of a pool, or in a transaction.

use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};

use crate::config::Config;
use crate::error::{Sent, classify};

pub(crate) type Query<'q> = sqlx::query::Query<'q, sqlx::Sqlite, SqliteArguments>;

/// The two pools of a store. They are one where the caller gave it.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    /// One connection where the store made it, so that the tasks of this process queue for the write lock in
    /// order instead of polling for it.
    pub(crate) writer: SqlitePool,
    /// Reads run beside the writer.
    pub(crate) reader: SqlitePool,
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
    let pool = match sent {
        Sent::Harmless => &pools.reader,
        Sent::Write => &pools.writer,
    };
    let work = async {
        let mut connection = pool
            .acquire()
            .await
            .map_err(|error| classify(error, Sent::Harmless))?;
        under_way = sent;
        query
            .fetch_all(&mut *connection)
            .await
            .map_err(|error| classify(error, sent))
    };
    match tokio::time::timeout(config.timeout(), work).await {
        Ok(result) => result,
        Err(_) => Err(timed_out(config, under_way)),
    }
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
