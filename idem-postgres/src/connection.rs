//! [`ConnectionSource`]: the connections for a store's own statements.

use idem_sql::cells::Row;
use idem_sql::executor::{BoundStatement, Executor as _};
use idem_sql::sqlx::{CloseUnlessDone, Connections};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, PgPool, Postgres};

use crate::config::StatementMode;
use crate::error::{cure, is_answer};
use crate::query::PgExecutor;
use crate::sqlstate::Cure;

/// The connections for statements that are not in a caller's transaction.
#[derive(Debug, Clone)]
pub(crate) enum ConnectionSource {
    /// The store's own connections, as long as its pool is not closed.
    Own(Connections<Postgres>, PgPool),
    /// The caller's pool, whose hooks prepare a connection for the caller's needs.
    Callers(PgPool),
}

/// How a statement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    /// The server undoes whatever the statement did: it runs in a transaction in every mode.
    Rollback,
}

/// The progress of a statement that was given to a [`ConnectionSource`].
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The statement was sent, and may have had an effect.
    pub(crate) is_sent: bool,
    /// It waits for a connection.
    pub(crate) is_waiting: bool,
}

/// A statement, and how to run it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'q> {
    pub(crate) statement: &'q BoundStatement<'q>,
    pub(crate) mode: StatementMode,
    pub(crate) end: End,
}

type Rows = Result<Vec<Row>, sqlx::Error>;

impl ConnectionSource {
    /// Returns all rows of the statement. Repairs errors that prove, by the state of the
    /// connection, that the statement had no effect. The caller sets the deadline.
    pub(crate) async fn rows(&self, job: Job<'_>, progress: &mut Progress) -> Rows {
        // One try more than the pool can have dead connections.
        for _ in 0..self.max_connections() {
            let rows = self.rows_once(job, progress).await;
            match &rows {
                Err(error) if cure(error) == Cure::Reconnect => progress.is_sent = false,
                _ => return rows,
            }
        }
        self.rows_once(job, progress).await
    }

    pub(crate) fn max_connections(&self) -> usize {
        match self {
            Self::Own(connections, _) => connections.max(),
            Self::Callers(pool) => {
                usize::try_from(pool.options().get_max_connections()).unwrap_or(usize::MAX)
            }
        }
    }

    async fn rows_once(&self, job: Job<'_>, progress: &mut Progress) -> Rows {
        match self {
            Self::Own(connections, pool) => own(connections, pool, job, progress).await,
            Self::Callers(pool) => {
                progress.is_waiting = true;
                let connection = pool.acquire().await?;
                progress.is_waiting = false;
                progress.is_sent = true;
                // Boxed, as are statements in a transaction, to keep the futures of all operations
                // small.
                Box::pin(callers(connection, job)).await
            }
        }
    }
}

/// Runs a statement on one of the store's own connections. The connection is reused when the
/// statement was answered, even with an error of the server: the rest is read before the next
/// answer. It is closed after anything else, when this future is dropped, and after an error that
/// another connection may not meet.
async fn own(
    connections: &Connections<Postgres>,
    pool: &PgPool,
    job: Job<'_>,
    progress: &mut Progress,
) -> Rows {
    progress.is_waiting = true;
    let mut guard = connections.acquire().await?;
    progress.is_waiting = false;
    // Checked again after the wait: closing the pool closes the store.
    if pool.is_closed() {
        connections.close();
        return Err(sqlx::Error::PoolClosed);
    }
    progress.is_sent = true;
    let connection = guard.connection().ok_or(sqlx::Error::PoolClosed)?;
    let (rows, is_clean) = run(connection, job).await;
    if is_clean {
        guard.done();
    }
    rows.inspect_err(|error| match only_reads(error) {
        true => connections.close_idle(),
        false => connections.note(error),
    })
}

/// Runs a statement on a connection of the caller's pool, which is handed back or closed as the
/// store's own.
async fn callers(connection: sqlx::pool::PoolConnection<Postgres>, job: Job<'_>) -> Rows {
    let mut guard = CloseUnlessDone::new(connection);
    let (rows, is_clean) = run(guard.connection(), job).await;
    if is_clean {
        guard.done();
    }
    rows
}

impl Job<'_> {
    fn needs_transaction(&self) -> bool {
        self.mode == StatementMode::Unprepared || self.end == End::Rollback
    }
}

/// Returns the rows, and whether the connection is in the state that it had before.
async fn run(connection: &mut PgConnection, job: Job<'_>) -> (Rows, bool) {
    if job.needs_transaction() {
        return Box::pin(in_transaction(connection, job)).await;
    }
    let mut rows = send(connection, job).await;
    if let Err(error) = &rows
        && cure(error) == Cure::Prepare
    {
        // The statement had no effect, and the connection has forgotten what it had prepared.
        rows = Box::pin(send(connection, job)).await;
    }
    let is_clean = match &rows {
        Ok(_) => true,
        Err(error) => is_answer(error) && !is_worn_out(error),
    };
    (rows, is_clean)
}

async fn send(connection: &mut PgConnection, job: Job<'_>) -> Rows {
    Ok(PgExecutor(connection).run(job.statement).await?.rows)
}

/// Returns whether to try another connection, although this one works. It is in a failed
/// transaction, its prepared statements are not the ones that were prepared, or its server only
/// reads.
fn is_worn_out(error: &sqlx::Error) -> bool {
    matches!(cure(error), Cure::Reconnect | Cure::Prepare) || only_reads(error)
}

/// Returns whether the server only reads, as an old primary does after a failover.
fn only_reads(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    error.and_then(|error| error.code()).as_deref() == Some("25006")
}

/// Parses, binds and executes an unnamed statement within one transaction, because a pooler may
/// give every transaction another server. The transaction begins with the characteristics that the
/// statements are written for, whatever the defaults are.
async fn in_transaction(connection: &mut PgConnection, job: Job<'_>) -> (Rows, bool) {
    let begun = connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE");
    let mut transaction = match begun.await {
        Ok(transaction) => transaction,
        Err(error) => return (Err(error), false),
    };
    let rows = send(&mut transaction, job).await;
    let ended = match (&rows, job.end) {
        (Ok(_), End::Commit) => transaction.commit().await,
        (Ok(_), End::Rollback) => transaction.rollback().await,
        (Err(error), _) if is_answer(error) && !is_worn_out(error) => {
            return (rows, transaction.rollback().await.is_ok());
        }
        (Err(_), _) => return (rows, false),
    };
    match ended {
        Ok(()) => (rows, true),
        Err(error) => (Err(error), false),
    }
}
