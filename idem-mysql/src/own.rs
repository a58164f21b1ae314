//! [`Own`]: connections that the store keeps to itself.

use std::fmt;
use std::sync::Arc;

use idem_sql::sqlx::{ConnectionGuard, Connections};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, MySql};

/// The connections of the store's operations, each set up as the pool's are.
#[derive(Clone)]
pub(crate) struct Own {
    connections: Connections<MySql>,
    settings: Arc<[String]>,
}

impl Own {
    pub(crate) fn new(
        options: MySqlConnectOptions,
        max: usize,
        settings: Arc<[String]>,
    ) -> Result<Self, sqlx::Error> {
        Ok(Self {
            connections: Connections::new(options, max)?,
            settings,
        })
    }

    /// Acquires a connection, and sets it up if it has no prepared statements and so counts as new.
    /// Setting one up twice does no harm.
    pub(crate) async fn acquire(&self) -> Result<ConnectionGuard<MySql>, sqlx::Error> {
        let mut guard = self.connections.acquire().await?;
        if let Some(connection) = guard.connection()
            && connection.cached_statements_size() == 0
        {
            for setting in self.settings.iter() {
                connection.execute(AssertSqlSafe(setting.clone())).await?;
            }
        }
        Ok(guard)
    }

    pub(crate) fn close(&self) {
        self.connections.close();
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connections.fmt(f)
    }
}

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
