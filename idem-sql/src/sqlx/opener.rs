//! [`Opener`]: makes connections, and checks them before they are used again.

use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use sqlx::{Connection, Database};

/// The store pings a connection that was idle for longer before it uses it.
const TRUSTED_IDLE: Duration = Duration::from_secs(30);

/// The store replaces a connection that is older, as sqlx's own pool does. The state that a server
/// keeps for a connection goes with it, and the name is looked up again, which may lead to another
/// server by then.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

pub(crate) type OptionsOf<DB> = <<DB as Database>::Connection as Connection>::Options;

pub(crate) struct Opener<DB: Database> {
    pub(crate) options: OptionsOf<DB>,
}

impl<DB: Database> Manager for Opener<DB> {
    type Type = DB::Connection;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<Self::Type, Self::Error> {
        DB::Connection::connect_with(&self.options).await
    }

    async fn recycle(
        &self,
        connection: &mut Self::Type,
        metrics: &Metrics,
    ) -> RecycleResult<Self::Error> {
        if metrics.age() > MAX_AGE {
            return Err(RecycleError::message("the connection is old"));
        }
        if metrics.last_used() > TRUSTED_IDLE {
            connection.ping().await.map_err(RecycleError::Backend)?;
        }
        Ok(())
    }
}
