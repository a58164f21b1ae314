//! [`Session`]: runs statements on a connection of the store, or in the caller's transaction.

use std::time::Duration;

use idem_core::backend::MAX_LOCK_WAIT;
use idem_core::{Effect, Error, Result};
use idem_sql::cells::Row;
use idem_sql::executor::{Answer, BoundStatement, Executor};

use crate::config::{Config, StatementMode};
use crate::connection::{ConnectionSource, End, Job, Progress};
use crate::drivers::BoxExecutor;
use crate::error::{Access, classify, cure};
use crate::query::Query;
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
        executor: BoxExecutor<'s>,
        mode: StatementMode,
        /// How long a statement waits for a lock, as the server reads it.
        wait: String,
        /// Whether the engine began the transaction, with a mark.
        is_marked: bool,
    },
}

impl<'s> Session<'s> {
    pub(crate) async fn rows(&mut self, query: Query<'_>, sent: Access) -> Result<Vec<Row>> {
        self.rows_until(query, sent, End::Commit).await
    }

    /// Returns the same; with [`End::Rollback`] the effect is undone, in a caller's transaction by
    /// a savepoint.
    pub(crate) async fn rows_until(
        &mut self,
        query: Query<'_>,
        sent: Access,
        end: End,
    ) -> Result<Vec<Row>> {
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
                executor,
                mode,
                wait,
                ..
            } => {
                let statement = query.within(wait, *mode == StatementMode::Prepared);
                let answer = match end {
                    End::Commit => executor.run(&statement).await,
                    End::Rollback => undone(&mut **executor, &statement).await,
                };
                let answer = answer.map_err(|error| match sent {
                    Access::Read => error.with_effect(Effect::None),
                    Access::Write => error,
                });
                Ok(answer?.rows)
            }
        }
    }

    /// Returns the rows of the last statement before the commit, which may leave its bound of the
    /// wait for locks behind.
    pub(crate) async fn last_rows(&mut self, query: Query<'_>) -> Result<Vec<Row>> {
        match self {
            Self::Store { .. } => self.rows(query, Access::Write).await,
            Self::Transaction { executor, mode, .. } => {
                let statement = query.alone(*mode == StatementMode::Prepared);
                Ok(executor.run(&statement).await?.rows)
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

/// Runs a statement in a caller's transaction, and undoes its effect.
async fn undone(
    executor: &mut (dyn Executor<Error = Error> + '_),
    statement: &BoundStatement<'_>,
) -> Result<Answer> {
    let control = |text: &str| BoundStatement {
        text: text.into(),
        values: Vec::new(),
        is_persistent: false,
    };
    executor.run(&control("SAVEPOINT idem_probe")).await?;
    let answer = executor.run(statement).await;
    for end in [
        "ROLLBACK TO SAVEPOINT idem_probe",
        "RELEASE SAVEPOINT idem_probe",
    ] {
        executor.run(&control(end)).await?;
    }
    answer
}

/// Returns the rows of a statement that commits by itself, within the time-out. A statement that
/// lost to another transaction is sent again: under READ COMMITTED after a deadlock, and where
/// SERIALIZABLE or REPEATABLE READ is the default after any race.
async fn alone(
    connections: &ConnectionSource,
    config: &Config,
    query: Query<'_>,
    sent: Access,
    end: End,
) -> Result<Vec<Row>> {
    let mode = config.statement_mode();
    let statement = query.alone(mode == StatementMode::Prepared);
    let job = Job {
        statement: &statement,
        mode,
        end,
    };
    let mut progress = Progress::default();
    let rows =
        tokio::time::timeout(config.timeout(), repeated(connections, job, &mut progress)).await;
    let under_way = if progress.is_sent { sent } else { Access::Read };
    match rows {
        Ok(rows) => rows.map_err(|error| classify(error, under_way)),
        Err(_) if progress.is_waiting => Err(Access::without_connection(
            config.timeout(),
            connections.max_connections(),
        )),
        Err(_) => Err(under_way.timed_out(config.timeout())),
    }
}

async fn repeated(
    connections: &ConnectionSource,
    job: Job<'_>,
    progress: &mut Progress,
) -> Result<Vec<Row>, sqlx::Error> {
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
pub(crate) fn wait(is_locked: bool) -> String {
    let wait = match is_locked {
        true => Duration::from_millis(1),
        false => MAX_LOCK_WAIT,
    };
    format!("{}ms", wait.as_millis())
}
