//! [`ConnectionGuard`]: a connection for one operation.

use std::fmt;
use std::sync::Arc;

use sqlx::Database;
use sqlx::pool::PoolConnection;

use super::connections::{Held, Shared};

/// A connection for one operation. Dropped before [`done`](Self::done), it is closed, which frees its
/// slot for a new one; the server rolls back an open transaction.
pub struct ConnectionGuard<DB: Database> {
    held: Option<Held<DB>>,
    shared: Arc<Shared<DB>>,
}

impl<DB: Database> ConnectionGuard<DB> {
    pub(super) fn new(held: Held<DB>, shared: Arc<Shared<DB>>) -> Self {
        let held = Some(held);
        Self { held, shared }
    }

    /// Returns the connection; `None` only for a guard that is done.
    pub fn connection(&mut self) -> Option<&mut DB::Connection> {
        Some(&mut self.held.as_mut()?.connection)
    }

    /// Hands the connection back for reuse: every answer on it was read to its end.
    pub fn done(mut self) {
        if let Some(held) = self.held.take() {
            self.shared.give_back(held);
        }
    }
}

impl<DB: Database> fmt::Debug for ConnectionGuard<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionGuard").finish_non_exhaustive()
    }
}

/// A connection of sqlx's pool that is closed, not handed back, when it is dropped before
/// [`done`](Self::done).
///
/// A future of sqlx 0.9.0 that is dropped while it begins a transaction leaves the transaction
/// open, and the pool would hand the connection on
/// (<https://github.com/transact-rs/sqlx/issues/4385>). Where an error is on its way, the pool ends
/// the connection without a word to the server, and over TLS waits for the answer for ever.
#[derive(Debug)]
pub struct CloseUnlessDone<DB: Database> {
    connection: PoolConnection<DB>,
    is_done: bool,
}

impl<DB: Database> CloseUnlessDone<DB> {
    /// Guards a connection on which a transaction or a setting is about to begin.
    #[must_use]
    pub fn new(connection: PoolConnection<DB>) -> Self {
        Self {
            connection,
            is_done: false,
        }
    }

    /// Returns the connection.
    pub fn connection(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }

    /// Hands the connection back to the pool: nothing is open on it.
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
