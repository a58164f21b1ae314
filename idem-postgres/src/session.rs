//! [`Session`]: runs statements on a connection of the store, or in the caller's transaction.

use std::time::Duration;

use idem_core::Result;
use idem_core::backend::MAX_LOCK_WAIT;
use sqlx::Connection;
use sqlx::postgres::{PgConnection, PgRow};

use crate::config::{Config, StatementMode};
use crate::connection::{ConnectionSource, End, Job, Progress};
use crate::error::{Access, classify, cure};
use crate::query::{Query, Ready};
use crate::sqlstate::Cure;

/// How often a statement is sent again that lost to another transaction; each time another caller
/// made progress.
const MAX_REPEATS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Runs single statements and returns all their rows, which are few.
#[derive(Debug)]
pub(crate) enum Session<'s> {
    Store {
        connections: &'s ConnectionSource,
        config: &'s Config,
    },
    Transaction {
        connection: &'s mut PgConnection,
        mode: StatementMode,
        /// How long a statement waits for a lock.
        wait: Duration,
    },
}

impl<'s> Session<'s> {
    pub(crate) async fn rows(&mut self, query: Query, sent: Access) -> Result<Vec<PgRow>> {
        self.rows_until(query, sent, End::Commit).await
    }

    /// Returns the same; with [`End::Rollback`] the effect is undone, in a caller's transaction by
    /// a savepoint.
    pub(crate) async fn rows_until(
        &mut self,
        query: Query,
        sent: Access,
        end: End,
    ) -> Result<Vec<PgRow>> {
        let sent = match end {
            End::Commit => sent,
            End::Rollback => Access::Read,
        };
        match self {
            // Boxed: the futures below and above are deep.
            Self::Store {
                connections,
                config,
            } => Box::pin(alone(connections, config, query, sent, end)).await,
            Self::Transaction {
                connection,
                mode,
                wait,
            } => {
                let refused = |error| classify(error, Access::Read);
                let ready = query.within(*wait).map_err(refused)?;
                let rows = match end {
                    End::Commit => within(connection, *mode, &ready).await,
                    End::Rollback => undone(connection, *mode, &ready).await,
                };
                rows.map_err(|error| classify(error, sent))
            }
        }
    }

    /// Returns whether each statement commits by itself, so that the next one sees what happened in
    /// between.
    pub(crate) fn commits_each(&self) -> bool {
        matches!(self, Self::Store { .. })
    }

    /// Returns another session on the store's connections, if this is one.
    pub(crate) fn beside(&self) -> Option<Session<'s>> {
        match *self {
            Self::Store {
                connections,
                config,
            } => Some(Session::Store {
                connections,
                config,
            }),
            Self::Transaction { .. } => None,
        }
    }
}

/// Returns the rows of a statement in a caller's transaction. Forgets statements that were prepared
/// before the table changed, so that the transaction can be repeated on the same connection.
async fn within(
    connection: &mut PgConnection,
    mode: StatementMode,
    ready: &Ready,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let query = ready.query().persistent(mode == StatementMode::Prepared);
    let rows = query.fetch_all(&mut *connection).await;
    if let Err(error) = &rows
        && cure(error) == Cure::Prepare
    {
        // The caller gets the first error.
        let _ = connection.clear_cached_statements().await;
    }
    rows
}

async fn undone(
    connection: &mut PgConnection,
    mode: StatementMode,
    ready: &Ready,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut savepoint = connection.begin().await?;
    let rows = within(&mut savepoint, mode, ready).await;
    savepoint.rollback().await?;
    rows
}

/// Returns the rows of a statement that commits by itself, within the time-out. A statement that
/// lost to another transaction is sent again: under READ COMMITTED after a deadlock, and where
/// SERIALIZABLE or REPEATABLE READ is the default after any race.
async fn alone(
    connections: &ConnectionSource,
    config: &Config,
    query: Query,
    sent: Access,
    end: End,
) -> Result<Vec<PgRow>> {
    let ready = query.alone();
    let ready = ready.map_err(|error| classify(error, Access::Read))?;
    let job = Job {
        ready: &ready,
        mode: config.statement_mode(),
        end,
    };
    let mut progress = Progress::default();
    let rows =
        tokio::time::timeout(config.timeout(), repeated(connections, job, &mut progress)).await;
    let under_way = if progress.is_sent { sent } else { Access::Read };
    match rows {
        Ok(rows) => rows.map_err(|error| classify(error, under_way)),
        Err(_) => Err(under_way.timed_out(config.timeout())),
    }
}

async fn repeated(
    connections: &ConnectionSource,
    job: Job<'_>,
    progress: &mut Progress,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut pause = FIRST_PAUSE;
    for _ in 0..MAX_REPEATS {
        match connections.rows(job, progress).await {
            Err(error) if cure(&error) == Cure::Repeat => progress.is_sent = false,
            rows => return rows,
        }
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.0..=1.0))).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    connections.rows(job, progress).await
}

/// Returns how long a statement in a caller's transaction waits for a lock; hardly at all when the
/// lock is known to be held.
pub(crate) fn wait(is_locked: bool) -> Duration {
    match is_locked {
        true => Duration::from_millis(1),
        false => MAX_LOCK_WAIT,
    }
}
