//! [`ConnectionGuard`]: a connection for one operation.

use std::fmt;

use deadpool::managed::Object;
use sqlx::Database;

use crate::opener::Opener;

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

    /// The connection; `None` never, but for a guard that is done.
    pub fn connection(&mut self) -> Option<&mut DB::Connection> {
        self.object.as_deref_mut()
    }

    /// All that was asked on it was answered to the end: it may be lent again.
    pub fn done(mut self) {
        drop(self.object.take());
    }
}

/// Its place is free for a new connection. The server rolls back what was open.
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
