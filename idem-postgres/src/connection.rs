//! [`ConnectionSource`]: the connections that a store's own statements run on.

use idem_sql::sqlx::{CloseUnlessDone, Connections};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, PgPool, Postgres};

use crate::config::StatementMode;
use crate::error::{cure, is_answer};
use crate::query::Ready;
use crate::sqlstate::Cure;

/// Where statements run that are not in a caller's transaction.
#[derive(Debug, Clone)]
pub(crate) enum ConnectionSource {
    /// On connections of the store's own, as long as its pool is not closed.
    Own(Connections<Postgres>, PgPool),
    /// On the caller's pool, whose hooks make of a connection what the caller needs it to be.
    Callers(PgPool),
}

/// How a statement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    /// Whatever it has done is undone: in a transaction, whatever the mode is.
    Rollback,
}

/// What is known of a statement that was given to a [`ConnectionSource`].
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// It was sent, and may have had an effect.
    pub(crate) is_sent: bool,
}

/// Which statement, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'q> {
    pub(crate) ready: &'q Ready,
    pub(crate) mode: StatementMode,
    pub(crate) end: End,
}

type Rows = Result<Vec<PgRow>, sqlx::Error>;

impl ConnectionSource {
    /// All rows of the statement. What proves that it has done nothing, because of the connection's
    /// state and not of the statement, is cured here; the caller sets the deadline.
    pub(crate) async fn rows(&self, job: Job<'_>, progress: &mut Progress) -> Rows {
        // One more than there can be connections that have died in the pool.
        for _ in 0..self.max_connections() {
            let rows = self.rows_once(job, progress).await;
            match &rows {
                Err(error) if cure(error) == Cure::Reconnect => progress.is_sent = false,
                _ => return rows,
            }
        }
        self.rows_once(job, progress).await
    }

    fn max_connections(&self) -> usize {
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
                let connection = pool.acquire().await?;
                progress.is_sent = true;
                // Boxed, as is what runs in a transaction, to keep the futures of all operations
                // small.
                Box::pin(callers(connection, job)).await
            }
        }
    }
}

/// A connection is used again when its statement was answered, with an error of the server's, too:
/// what follows that is read before the next answer. After anything else, and when this future is
/// dropped, it is closed; also after an error that another connection may not meet.
async fn own(
    connections: &Connections<Postgres>,
    pool: &PgPool,
    job: Job<'_>,
    progress: &mut Progress,
) -> Rows {
    let mut guard = connections.acquire().await?;
    // Also by one who has waited: who closes the pool means the store.
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
    rows
}

async fn callers(mut connection: sqlx::pool::PoolConnection<Postgres>, job: Job<'_>) -> Rows {
    if job.needs_transaction() {
        let mut guard = CloseUnlessDone::new(connection);
        let (rows, is_clean) = run(guard.connection(), job).await;
        if is_clean {
            guard.done();
        }
        return rows;
    }
    // Nothing can be left open: the pool's hooks see to the rest.
    let (rows, _) = run(&mut connection, job).await;
    if rows.as_ref().is_err_and(is_worn_out) {
        connection.close_on_drop();
    }
    rows
}

impl Job<'_> {
    fn needs_transaction(&self) -> bool {
        self.mode == StatementMode::Unprepared || self.end == End::Rollback
    }
}

/// The rows, and whether the connection is as it was before.
async fn run(connection: &mut PgConnection, job: Job<'_>) -> (Rows, bool) {
    if job.needs_transaction() {
        return Box::pin(in_transaction(connection, job)).await;
    }
    let mut rows = job.ready.query().fetch_all(&mut *connection).await;
    if let Err(error) = &rows
        && cure(error) == Cure::Prepare
    {
        rows = Box::pin(prepared_anew(connection, job)).await;
    }
    let is_clean = match &rows {
        Ok(_) => true,
        Err(error) => is_answer(error) && !is_worn_out(error),
    };
    (rows, is_clean)
}

/// Forgets what was prepared on the connection, and sends the statement again, which has done
/// nothing.
async fn prepared_anew(connection: &mut PgConnection, job: Job<'_>) -> Rows {
    connection.clear_cached_statements().await?;
    job.ready.query().fetch_all(connection).await
}

/// Whether another connection is to be tried, although this one goes on: it is in a transaction
/// that has failed, what is prepared on it is not what it was, or it leads to a server that only
/// reads, as an old primary does after a failover.
fn is_worn_out(error: &sqlx::Error) -> bool {
    let read_only = error.as_database_error().and_then(|error| error.code());
    cure(error) == Cure::Reconnect
        || cure(error) == Cure::Prepare
        || read_only.as_deref() == Some("25006")
}

/// A pooler may give every transaction another server, so an unnamed statement is parsed, bound and
/// executed within one. It begins with the characteristics that the statements are written for,
/// whatever the defaults are.
async fn in_transaction(connection: &mut PgConnection, job: Job<'_>) -> (Rows, bool) {
    let begun = connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE");
    let mut transaction = match begun.await {
        Ok(transaction) => transaction,
        Err(error) => return (Err(error), false),
    };
    let query = job.ready.query();
    let query = query.persistent(job.mode == StatementMode::Prepared);
    let rows = query.fetch_all(&mut *transaction).await;
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
