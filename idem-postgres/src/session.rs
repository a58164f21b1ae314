//! Where a statement runs: on a connection of the store, or in the caller's transaction.

use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};

use crate::config::{Config, StatementMode};
use crate::error::{Sent, classify};
use crate::looks::Looks;
use crate::place::Place;

pub(crate) type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;

/// Runs single statements and returns all their rows, which are few.
#[derive(Debug)]
pub(crate) enum Session<'s> {
    Store {
        place: &'s Place,
        config: &'s Config,
        looks: &'s Looks,
    },
    Transaction(&'s mut PgConnection, StatementMode),
}

impl Session<'_> {
    pub(crate) async fn rows(&mut self, query: Query<'_>, sent: Sent) -> Result<Vec<PgRow>> {
        match self {
            Self::Store { place, config, .. } => alone(place, config, query, sent).await,
            Self::Transaction(connection, mode) => query
                .persistent(*mode == StatementMode::Prepared)
                .fetch_all(&mut **connection)
                .await
                .map_err(|error| classify(error, sent)),
        }
    }

    /// Whether each statement commits by itself, so that one that follows another sees what has happened in between.
    pub(crate) fn commits_each(&self) -> bool {
        matches!(self, Self::Store { .. })
    }
}

/// The rows of a statement that commits by itself, within the time-out.
pub(crate) async fn alone(
    place: &Place,
    config: &Config,
    query: Query<'_>,
    sent: Sent,
) -> Result<Vec<PgRow>> {
    let mut under_way = Sent::Harmless;
    let rows = place.rows(query, config.statement_mode(), || under_way = sent);
    match tokio::time::timeout(config.timeout(), rows).await {
        Ok(rows) => rows.map_err(|error| classify(error, under_way)),
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
