//! [`Held`]: a connection for one operation.

use idem_sql::sqlx::ConnectionGuard;
use sqlx::MySql;
use sqlx::mysql::MySqlConnection;
use sqlx::pool::PoolConnection;

/// A connection for one operation.
#[derive(Debug)]
pub(crate) enum Held {
    Pooled(PoolConnection<MySql>),
    Own(ConnectionGuard<MySql>),
}

impl Held {
    pub(crate) fn connection(&mut self) -> Option<&mut MySqlConnection> {
        match self {
            Self::Pooled(connection) => Some(connection),
            Self::Own(guard) => guard.connection(),
        }
    }

    /// Hands the connection back for reuse: every answer was read to its end.
    pub(crate) fn keep(self) {
        if let Self::Own(guard) = self {
            guard.done();
        }
    }

    /// Closes the connection, so that it is not reused.
    pub(crate) fn close(self) {
        match self {
            Self::Pooled(mut connection) => connection.close_on_drop(),
            Self::Own(guard) => drop(guard),
        }
    }
}
