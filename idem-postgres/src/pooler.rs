//! Whether prepared statements work: some poolers give each transaction another server, and know
//! nothing of what their clients have prepared.

use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Row};

use crate::error::{Access, classify};

/// How long a step waits. A pooler that has a single server lets the second client wait for the
/// first, and then mixes nothing up.
const PATIENCE: Duration = Duration::from_millis(500);

/// Each client is made to change its server so often.
const ROUNDS: usize = 2;

/// The two clients prepare these, under the same name: drivers count.
const FIRST: &str = "SELECT 1 + CAST($1 AS bigint)";
const SECOND: &str = "SELECT 2 + CAST($1 AS bigint)";

/// Tries it out with two clients of which one has its server taken away by the other's transaction.
///
/// On a pooler that mixes statements up, this one's statement is not there on the next server
/// (26000), another one's is (the wrong sum), or the name is taken (42P05).
pub(crate) async fn check_prepared(
    first: &mut PgConnection,
    options: &PgConnectOptions,
) -> Result<()> {
    // Where there is no second connection to be had, nothing can be tried out.
    let second = PgConnection::connect_with(options);
    let Ok(Ok(mut second)) = tokio::time::timeout(PATIENCE, second).await else {
        return Ok(());
    };
    let tried = try_out(first, &mut second).await;
    // Nobody reads an answer any more.
    let _ = tokio::time::timeout(PATIENCE, second.close()).await;
    match tried {
        Ok(true) => Ok(()),
        Ok(false) => Err(mixed_up()),
        Err(sqlx::Error::PoolTimedOut) => Ok(()),
        Err(sqlx::Error::RowNotFound) => Err(mixed_up()),
        Err(error) => {
            let told = classify(error, Access::Read);
            Err(match told.kind() {
                ErrorKind::Misconfigured => mixed_up().with_source(told),
                _ => told,
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

/// Whether each client is answered by its own statement.
async fn try_out(first: &mut PgConnection, second: &mut PgConnection) -> sqlx::Result<bool> {
    let mut is_right = is_answered(first, FIRST, 1).await?;
    for _ in 0..ROUNDS {
        is_right &= beside(second, SECOND, 2, first, FIRST, 1).await?;
        is_right &= beside(first, FIRST, 1, second, SECOND, 2).await?;
    }
    Ok(is_right)
}

/// One client keeps a server in a transaction, the one that was used last where poolers lend that
/// first, and the other has to take another one.
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
    // Read as bytes, whatever they are: the column that was promised may not be there.
    let answer: i64 = row.try_get_unchecked(0)?;
    Ok(answer == number + 40)
}

async fn within<T>(step: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let late = |_| sqlx::Error::PoolTimedOut;
    tokio::time::timeout(PATIENCE, step)
        .await
        .map_err(late)
        .flatten()
}
