//! [`CallerTransaction`]: the transactions of callers, with one file for each driver.
//!
//! Such a file has the driver's `Executor`, and says which result code an error of the driver holds.
//! Everything else is the same for all of them.

#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod sqlx;

use std::error::Error as StdError;

use idem_core::{Error, Result};
use idem_sql::executor::Executor;

pub(crate) use sqlx::on;

#[cfg(feature = "rusqlite")]
pub use rusqlite::RusqliteTransaction;

/// An open transaction of a driver, for [`claim_in`](crate::SqliteStore::claim_in) and the other
/// methods in a caller's transaction. No other crate can implement it.
///
/// | driver | transaction | feature |
/// | --- | --- | --- |
/// | sqlx | [`Transaction`](crate::Transaction) of this crate, `SqliteTransaction` | none |
/// | SeaORM | `DatabaseTransaction`, or a reference to it, as in the closure of `transaction` | `sea-orm` |
///
/// rusqlite blocks its thread, so it has methods of its own: `SqliteStore::rusqlite`, with the
/// feature `rusqlite`.
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
        /// `Misconfigured` where there is no transaction of SQLite.
        fn executor(&mut self) -> Result<super::BoxExecutor<'_>>;
    }
}

/// The connection of a caller's transaction. Its errors are classified as those of a write.
pub(crate) type BoxExecutor<'t> = Box<dyn Executor<Error = Error> + 't>;

/// Returns the connection of a caller's transaction.
pub(crate) fn executor(transaction: &mut impl CallerTransaction) -> Result<BoxExecutor<'_>> {
    transaction.executor()
}

/// Returns SQLite's extended result code in an error of a driver; `None` for any other error.
pub(crate) fn code(error: &(dyn StdError + 'static)) -> Option<i32> {
    let code = sqlx::code(error);
    #[cfg(feature = "rusqlite")]
    let code = code.or_else(|| rusqlite::code(error));
    #[cfg(feature = "sea-orm")]
    let code = code.or_else(|| sqlx::code(sea_orm::driver_error(error)?));
    code
}
