//! [`ConnectionGuard`]: a connection for one operation.

use std::fmt;

use deadpool::managed::Object;
use sqlx::Database;
use sqlx::pool::PoolConnection;

use super::opener::Opener;

/// A connection for one operation. Dropped before [`done`](Self::done) it is closed.
pub struct ConnectionGuard<DB: Database> {
    object: Option<Object<Opener<DB>>>,
}

impl<DB: Database> ConnectionGuard<DB> {
    pub(crate) fn new(object: Object<Opener<DB>>) -> Self {
        Self {
            object: Some(object),
        }
    }

    /// The connection; `None` only for a guard that is done.
    pub fn connection(&mut self) -> Option<&mut DB::Connection> {
        self.object.as_deref_mut()
    }

    /// All that was asked on it was answered to the end: it may be used again.
    pub fn done(mut self) {
        drop(self.object.take());
    }
}

/// A new connection may take its slot. The server rolls back what was open.
impl<DB: Database> Drop for ConnectionGuard<DB> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}

impl<DB: Database> fmt::Debug for ConnectionGuard<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionGuard").finish_non_exhaustive()
    }
}

/// A connection of sqlx's pool that is closed instead of handed back when what was begun on it was
/// not finished.
///
/// A future of sqlx 0.9.0 that is dropped while it begins a transaction leaves it open, and the
/// pool would hand the connection on (<https://github.com/transact-rs/sqlx/issues/4385>).
#[derive(Debug)]
pub struct CloseUnlessDone<DB: Database> {
    connection: PoolConnection<DB>,
    is_done: bool,
}

impl<DB: Database> CloseUnlessDone<DB> {
    /// Something is about to begin on the connection.
    #[must_use]
    pub fn new(connection: PoolConnection<DB>) -> Self {
        Self {
            connection,
            is_done: false,
        }
    }

    /// The connection.
    pub fn connection(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }

    /// What was begun is finished: the pool may have the connection back.
    pub fn done(mut self) {
        self.is_done = true;
    }
}

impl<DB: Database> Drop for CloseUnlessDone<DB> {
    fn drop(&mut self) {
        if !self.is_done {
            self.connection.close_on_drop();
        }
    }
}
