//! [`CallerTransaction`]: the transactions of callers, with one file for each driver.
//!
//! Such a file has the driver's `Executor`, and says which number of the server an error of the
//! driver holds. Everything else is the same for all of them.

#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(feature = "mysql_async")]
mod mysql_async;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod sqlx;

#[cfg(feature = "mysql_async")]
pub use self::mysql_async::MySqlAsyncTransaction;

use std::error::Error as StdError;

use idem_core::{Error, Result};
use idem_sql::executor::Executor;

/// An open transaction of a driver, for [`claim_in`](crate::MySqlStore::claim_in) and the other
/// methods in a caller's transaction. No other crate can implement it.
///
/// | driver | transaction | feature |
/// | --- | --- | --- |
/// | sqlx | [`Transaction`](crate::Transaction) of this crate, `MySqlTransaction`, or the `MySqlConnection` of one | none |
/// | mysql_async | `MySqlAsyncTransaction`, or `Transaction`, on a connection with `client_found_rows(true)` | `mysql_async` |
/// | diesel-async | `AsyncMysqlConnection`, in the closure of `transaction` | `diesel-async` |
/// | SeaORM | `DatabaseTransaction`, or a reference to it, as in the closure of `transaction` | `sea-orm` |
///
/// The server has to count the rows that a condition meets, also where a statement leaves them as
/// they are. sqlx, diesel-async and SeaORM request that; mysql_async does not by default, and the
/// methods refuse such a connection.
///
/// After an error of the server roll the transaction back, whatever the driver. After a future that
/// was dropped its state is unknown: roll it back too.
///
/// SeaORM and `MySqlTransaction` hand the connection of a dropped transaction back to its pool. If an
/// error was on its way, sqlx 0.9.0 ends the connection without a word to the server, and over TLS
/// waits for the answer: the pool has one connection less for good. A pool that looks first, for a
/// round trip more, replaces it:
///
/// ```
/// use idem_mysql::sqlx::Connection;
/// use idem_mysql::sqlx::mysql::MySqlPoolOptions;
///
/// // For SeaORM in `ConnectOptions::map_sqlx_mysql_pool_opts`.
/// let options = MySqlPoolOptions::new()
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
        /// `Misconfigured` where there is no transaction of this server, or none that suits.
        fn executor(&mut self) -> Result<super::BoxExecutor<'_>>;
    }
}

/// The connection of a caller's transaction. Its errors are classified as those of a write.
pub(crate) type BoxExecutor<'t> = Box<dyn Executor<Error = Error> + 't>;

/// Returns the connection of a caller's transaction.
pub(crate) fn executor(transaction: &mut impl CallerTransaction) -> Result<BoxExecutor<'_>> {
    transaction.executor()
}

/// Returns the number of the server's error that this error of a driver holds; `None` for any other
/// error.
pub(crate) fn number(error: &(dyn StdError + 'static)) -> Option<u16> {
    let number = sqlx::number(error);
    #[cfg(feature = "mysql_async")]
    let number = number.or_else(|| mysql_async::number(error));
    #[cfg(feature = "diesel-async")]
    let number = number.or_else(|| diesel_async::number(error));
    #[cfg(feature = "sea-orm")]
    let number = number.or_else(|| sqlx::number(sea_orm::driver_error(error)?));
    number
}

/// Returns whether the statement of the store reads, or returns what it writes, for drivers that do
/// not return both rows and their count.
#[cfg(any(feature = "diesel-async", feature = "sea-orm"))]
fn returns_rows(text: &str) -> bool {
    let text = text.trim_start().trim_start_matches('(');
    let begins = |word: &str| {
        let first = text.get(..word.len());
        first.is_some_and(|first| first.eq_ignore_ascii_case(word))
    };
    begins("SELECT") || begins("WITH") || begins("SHOW") || text.contains("RETURNING")
}

#[cfg(all(test, any(feature = "diesel-async", feature = "sea-orm")))]
mod tests {
    use super::returns_rows;

    #[test]
    fn the_statements_that_return_rows_are_known() {
        for text in [
            "SELECT 1",
            " (select 1)",
            "INSERT INTO t VALUES (1) RETURNING a",
        ] {
            assert!(returns_rows(text), "{text}");
        }
        for text in ["SET @a = 1", "INSERT INTO t SELECT 1", "UPDATE t SET a = 1"] {
            assert!(!returns_rows(text), "{text}");
        }
    }
}
