//! Tests whether prepared statements work: some poolers give each transaction another server, and
//! know nothing of their clients' prepared statements.

use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Row};

use crate::error::{Access, classify};

/// How long a step waits. With a single server, a pooler lets the second client wait for the first,
/// and then mixes nothing up.
const TIMEOUT: Duration = Duration::from_millis(500);

/// How often each client is made to change its server.
const ROUNDS: usize = 2;

/// The two clients prepare these under the same name: drivers count their statements.
const FIRST: &str = "SELECT 1 + CAST($1 AS bigint)";
const SECOND: &str = "SELECT 2 + CAST($1 AS bigint)";

/// Tests prepared statements with two clients; the transaction of one takes the server from the
/// other.
///
/// On a pooler that mixes statements up, the next server lacks the client's statement (26000), has
/// another client's (the wrong sum), or has the name in use (42P05).
pub(crate) async fn check_prepared(
    first: &mut PgConnection,
    options: &PgConnectOptions,
) -> Result<()> {
    // Without a second connection, nothing can be tested.
    let second = PgConnection::connect_with(options);
    let Ok(Ok(mut second)) = tokio::time::timeout(TIMEOUT, second).await else {
        return Ok(());
    };
    let tried = try_out(first, &mut second).await;
    // No answer is expected any more.
    let _ = tokio::time::timeout(TIMEOUT, second.close()).await;
    match tried {
        Ok(true) => Ok(()),
        Ok(false) => Err(mixed_up()),
        Err(sqlx::Error::PoolTimedOut) => Ok(()),
        Err(sqlx::Error::RowNotFound) => Err(mixed_up()),
        Err(error) => {
            let error = classify(error, Access::Read);
            Err(match error.kind() {
                ErrorKind::Misconfigured => mixed_up().with_source(error),
                _ => error,
            })
        }
    }
}

fn mixed_up() -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        Effect::None,
        "a pooler in transaction mode mixes prepared statements up; use `StatementMode::Unprepared`, or \
         PgBouncer 1.21 with max_prepared_statements",
    )
}

/// Returns whether each client is answered by its own statement.
async fn try_out(first: &mut PgConnection, second: &mut PgConnection) -> sqlx::Result<bool> {
    let mut is_right = is_answered(first, FIRST, 1).await?;
    for _ in 0..ROUNDS {
        is_right &= beside(second, SECOND, 2, first, FIRST, 1).await?;
        is_right &= beside(first, FIRST, 1, second, SECOND, 2).await?;
    }
    Ok(is_right)
}

/// Keeps a server busy with one client's transaction, the server that was used last where poolers
/// hand that one out first; so the other client has to take another.
async fn beside(
    keeps: &mut PgConnection,
    kept: &'static str,
    kept_number: i64,
    moves: &mut PgConnection,
    moved: &'static str,
    moved_number: i64,
) -> sqlx::Result<bool> {
    let mut transaction = within(keeps.begin()).await?;
    let is_right = is_answered(&mut transaction, kept, kept_number).await?
        & is_answered(moves, moved, moved_number).await?;
    within(transaction.rollback()).await?;
    Ok(is_right)
}

async fn is_answered(
    connection: &mut PgConnection,
    statement: &'static str,
    number: i64,
) -> sqlx::Result<bool> {
    let row = within(sqlx::query(statement).bind(40_i64).fetch_one(connection)).await?;
    // Read as bytes, whatever they are: the column may differ from its description.
    let answer: i64 = row.try_get_unchecked(0)?;
    Ok(answer == number + 40)
}

async fn within<T>(step: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let late = |_| sqlx::Error::PoolTimedOut;
    tokio::time::timeout(TIMEOUT, step)
        .await
        .map_err(late)
        .flatten()
}
