//! [`Place`]: the connections that a store's own statements run on.

use idem_sqlx::Connections;
use sqlx::postgres::{PgConnection, PgDatabaseError, PgRow, PgSeverity};
use sqlx::{Connection, PgPool, Postgres};

use crate::config::StatementMode;
use crate::session::{CloseUnlessDone, Query};

/// Where statements run that are not in a caller's transaction.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// On connections of the store's own, as long as its pool is not closed.
    Own(Connections<Postgres>, PgPool),
    /// On the caller's pool, whose hooks make of a connection what the caller needs it to be.
    Callers(PgPool),
}

impl Place {
    /// All rows of the statement. `acquired` is called once nothing but the statement is left to wait for.
    pub(crate) async fn rows(
        &self,
        query: Query<'_>,
        mode: StatementMode,
        acquired: impl FnOnce() + Send,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        match self {
            Self::Own(connections, pool) => own(connections, pool, query, mode, acquired).await,
            Self::Callers(pool) => {
                let connection = pool.acquire().await?;
                acquired();
                // Boxed, as is what runs unprepared, to keep the futures of all operations small.
                Box::pin(callers(connection, query, mode)).await
            }
        }
    }
}

/// A connection is lent again when its statement was answered, with an error of the server's, too: what follows that
/// is read before the next answer. After anything else, and when this future is dropped, it is closed.
async fn own(
    connections: &Connections<Postgres>,
    pool: &PgPool,
    query: Query<'_>,
    mode: StatementMode,
    acquired: impl FnOnce() + Send,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut lent = connections.lend().await?;
    // Also by one who has waited: who closes the pool means the store.
    if pool.is_closed() {
        connections.close();
        return Err(sqlx::Error::PoolClosed);
    }
    acquired();
    let connection = lent.connection().ok_or(sqlx::Error::PoolClosed)?;
    let rows = match mode {
        StatementMode::Prepared => query.fetch_all(connection).await,
        StatementMode::Unprepared => Box::pin(unprepared(connection, query)).await,
    };
    let answered = match (&rows, mode) {
        (Ok(_), _) => true,
        (Err(error), StatementMode::Prepared) => is_answer(error),
        (Err(_), StatementMode::Unprepared) => false,
    };
    if answered {
        lent.done();
    }
    rows
}

async fn callers(
    mut connection: sqlx::pool::PoolConnection<Postgres>,
    query: Query<'_>,
    mode: StatementMode,
) -> Result<Vec<PgRow>, sqlx::Error> {
    if mode == StatementMode::Prepared {
        return query.fetch_all(&mut *connection).await;
    }
    let mut guard = CloseUnlessDone::new(connection);
    let rows = unprepared(guard.connection(), query).await?;
    guard.done();
    Ok(rows)
}

/// The pooler may give every transaction another server, so the unnamed statement is parsed, bound and executed
/// within one.
async fn unprepared(
    connection: &mut PgConnection,
    query: Query<'_>,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let rows = query.persistent(false).fetch_all(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(rows)
}

/// Whether the server has answered with an error and goes on: after FATAL and PANIC it closes the connection.
fn is_answer(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| error.severity() == PgSeverity::Error)
}
