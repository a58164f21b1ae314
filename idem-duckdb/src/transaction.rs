//! [`DuckDbTransaction`].

use std::fmt;

use duckdb::Connection;
use idem_core::{BoxError, Effect, Error, ErrorKind, Result};
use tokio::task::spawn_blocking;

use crate::error::{Access, classify, thread_is_gone};
use crate::held::Name;
use crate::pool::{Borrowed, off_thread};

/// A caller's open transaction, on a connection of its own. Dropped, it is rolled back.
///
/// DuckDB's calls wait for the disk and for other threads, so each runs on a thread that may wait.
pub struct DuckDbTransaction {
    /// `None` while a call is under way, and after one whose future was dropped.
    open: Option<Borrowed>,
}

impl DuckDbTransaction {
    pub(crate) fn new(open: Borrowed) -> Self {
        Self { open: Some(open) }
    }

    /// Runs the caller's work in the transaction. Neither end the transaction in it, nor change the
    /// connection's database.
    ///
    /// # Errors
    ///
    /// The work's; `Other` when a call before was cancelled. DuckDB aborts a transaction at its
    /// first error: roll it back.
    ///
    /// # Cancellation
    ///
    /// The work runs to its end. The transaction is rolled back then, and further calls fail.
    pub async fn run<T, E>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, BoxError>
    where
        T: Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let ran = self.with(work).await?;
        ran.map_err(Into::into)
    }

    /// Runs work, whose result is inside.
    pub(crate) async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T> {
        let open = self.open.take().ok_or_else(ended)?;
        let ran = spawn_blocking(move || {
            let done = work(&open.lease.connection);
            (open, done)
        });
        let ran = ran.await;
        let (open, done) = ran.map_err(|error| thread_is_gone(error, Access::Read))?;
        self.open = Some(open);
        Ok(done)
    }

    /// Holds the name; `false` while another transaction does.
    pub(crate) fn hold(&self, name: &Name) -> Result<bool> {
        let open = self.open.as_ref().ok_or_else(ended)?;
        Ok(open.holder.hold(name))
    }

    /// Returns whether another transaction holds the name.
    pub(crate) fn is_held_elsewhere(&self, name: &Name) -> Result<bool> {
        let open = self.open.as_ref().ok_or_else(ended)?;
        Ok(open.holder.is_held_elsewhere(name))
    }

    /// Commits.
    ///
    /// # Errors
    ///
    /// `Contention` when a concurrent transaction has written the same rows, and after an error in
    /// the transaction; nothing was committed then. `Unavailable` when the commit could not be
    /// written.
    ///
    /// # Cancellation
    ///
    /// The commit takes effect.
    pub async fn commit(self) -> Result<()> {
        // DuckDB calls the commit of a transaction that an error has aborted a success, and commits
        // nothing. Any other statement says what has happened.
        self.end("SELECT 1; COMMIT").await
    }

    /// Rolls back.
    ///
    /// # Errors
    ///
    /// As DuckDB reports them. Nothing is committed in any case.
    pub async fn rollback(self) -> Result<()> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Result<()> {
        let open = self.open.take().ok_or_else(ended)?;
        let ended = spawn_blocking(move || open.lease.connection.execute_batch(statement));
        match ended.await {
            Ok(ended) => ended.map_err(|error| classify(error, Access::Write)),
            Err(error) => Err(thread_is_gone(error, Access::Write)),
        }
    }
}

fn ended() -> Error {
    Error::new(
        ErrorKind::Other,
        Effect::None,
        "the transaction was rolled back when a call in it was cancelled; begin another",
    )
}

impl Drop for DuckDbTransaction {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            off_thread(open);
        }
    }
}

impl fmt::Debug for DuckDbTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuckDbTransaction")
            .field("is_open", &self.open.is_some())
            .finish_non_exhaustive()
    }
}
