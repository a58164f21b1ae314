//! [`CallerTransaction`]: the transactions of callers, with one file for each driver.
//!
//! Such a file has the driver's `Executor`, and says which answer of the server an error of the
//! driver holds. Everything else is the same for all of them.

#[cfg(feature = "deadpool-postgres")]
mod deadpool_postgres;
#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod sqlx;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

#[cfg(feature = "deadpool-postgres")]
pub use self::deadpool_postgres::DeadpoolTransaction;

use std::error::Error as StdError;

use idem_core::{Error, Result};
use idem_sql::executor::Executor;

use crate::sqlstate::Answer;

/// An open transaction of a driver, for [`claim_in`](crate::PostgresStore::claim_in) and the other
/// methods in a caller's transaction. No other crate can implement it.
///
/// | driver | transaction | feature |
/// | --- | --- | --- |
/// | sqlx | [`Transaction`](crate::Transaction) of this crate, or `PgTransaction` | none |
/// | tokio-postgres | `Transaction`, also one that is a savepoint | `tokio-postgres` |
/// | deadpool-postgres | `DeadpoolTransaction` or `Transaction`, with the statement cache of the connection | `deadpool-postgres` |
/// | diesel-async | `AsyncPgConnection`, in the closure of `transaction` | `diesel-async` |
/// | SeaORM | `DatabaseTransaction`, or a reference to it, as in the closure of `transaction` | `sea-orm` |
///
/// Under [`StatementMode::Prepared`](crate::StatementMode::Prepared), sqlx,
/// deadpool-postgres and diesel-async keep the store's statements prepared; SeaORM always does. tokio-postgres has no cache: each
/// statement is parsed, bound and executed in one round trip, which suits any pooler.
///
/// After an error of the server the transaction has failed, whatever the driver. After a future
/// that was dropped its state is unknown. Roll it back in both cases.
///
/// SeaORM and `PgTransaction` hand the connection of a dropped transaction back to its pool. If an
/// error was on its way, sqlx 0.9.0 ends the connection without a word to the server, and over TLS
/// waits for the answer: the pool has one connection less for good. A pool that looks first, for a
/// round trip more, replaces it, as [`pool`](crate::PostgresStore::pool) of a store that connected
/// does. On another one:
///
/// ```
/// use idem_postgres::sqlx::Connection;
/// use idem_postgres::sqlx::postgres::PgPoolOptions;
///
/// // For SeaORM in `ConnectOptions::map_sqlx_postgres_pool_opts`.
/// let options = PgPoolOptions::new()
///     .after_release(|connection, _| Box::pin(async { Ok(connection.ping().await.is_ok()) }));
/// ```
#[doc(alias("exactly once", "transaction"))]
pub trait CallerTransaction: connected::Connected + Send {}

impl<T: connected::Connected + Send> CallerTransaction for T {}

pub(crate) mod connected {
    use idem_core::Result;

    /// The part of the trait that only this crate sees.
    pub trait Connected {
        /// Returns the connection of the transaction.
        ///
        /// # Errors
        ///
        /// `Misconfigured` where there is no transaction of this server.
        fn executor(&mut self) -> Result<super::BoxExecutor<'_>>;
    }
}

/// The connection of a caller's transaction. Its errors are classified as those of a write.
pub(crate) type BoxExecutor<'t> = Box<dyn Executor<Error = Error> + 't>;

/// Returns the connection of a caller's transaction.
pub(crate) fn executor(transaction: &mut impl CallerTransaction) -> Result<BoxExecutor<'_>> {
    transaction.executor()
}

/// Returns the answer of the server that this error of a driver holds; `None` for any other error.
pub(crate) fn answer<'e>(error: &'e (dyn StdError + 'static)) -> Option<Answer<'e>> {
    let answer = sqlx::answer(error);
    #[cfg(feature = "tokio-postgres")]
    let answer = answer.or_else(|| tokio_postgres::answer(error));
    #[cfg(feature = "diesel-async")]
    let answer = answer.or_else(|| diesel_async::answer(error));
    #[cfg(feature = "sea-orm")]
    let answer = answer.or_else(|| sqlx::answer(sea_orm::driver_error(error)?));
    answer
}
