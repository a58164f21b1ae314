//! [`Connections`]: the connections of a store.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool::managed::{Pool, PoolError, QueueMode};
use sqlx::Database;

use super::ConnectionGuard;
use super::opener::Opener;

/// The store closes a connection that was idle for longer, as sqlx's own pool does.
const MAX_IDLE: Duration = Duration::from_secs(10 * 60);

/// How often the store searches for idle connections, when it acquires one.
const LOOK: Duration = Duration::from_secs(60);

/// Connections that a store keeps to itself. It opens them as they are needed, and reuses the one
/// that came back last.
///
/// A clone shares them.
pub struct Connections<DB: Database> {
    pool: Pool<Opener<DB>>,
    looked: std::sync::Arc<Mutex<Instant>>,
}

impl<DB: Database> Connections<DB> {
    /// Sets up at most `max` connections. Nothing is opened yet.
    ///
    /// # Errors
    ///
    /// `Configuration` when the pool cannot be set up.
    pub fn new(opener: Opener<DB>, max: usize) -> Result<Self, sqlx::Error> {
        let pool = Pool::builder(opener)
            .max_size(max.max(1))
            .queue_mode(QueueMode::Lifo)
            .build()
            .map_err(|error| sqlx::Error::Configuration(error.into()))?;
        Ok(Self {
            pool,
            looked: std::sync::Arc::new(Mutex::new(Instant::now())),
        })
    }

    /// Acquires a connection for one operation; waits while all are in use. The caller sets the
    /// deadline.
    ///
    /// # Errors
    ///
    /// The error of opening one; [`PoolClosed`](sqlx::Error::PoolClosed) after
    /// [`close`](Self::close).
    ///
    /// # Cancellation
    ///
    /// Without effect.
    pub async fn acquire(&self) -> Result<ConnectionGuard<DB>, sqlx::Error> {
        self.close_idle();
        match self.pool.get().await {
            Ok(object) => Ok(ConnectionGuard::new(object)),
            Err(PoolError::Backend(error)) => Err(error),
            Err(PoolError::Closed) => Err(sqlx::Error::PoolClosed),
            Err(other) => Err(sqlx::Error::Configuration(other.into())),
        }
    }

    /// Returns the most connections that there may be.
    #[must_use]
    pub fn max(&self) -> usize {
        self.pool.status().max_size
    }

    /// Closes the idle connections now, and the others when they come back. No new ones are opened.
    pub fn close(&self) {
        self.pool.close();
    }

    fn close_idle(&self) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.elapsed() >= LOOK {
            *looked = Instant::now();
            self.pool
                .retain(|_, metrics| metrics.last_used() < MAX_IDLE);
        }
    }
}

impl<DB: Database> Clone for Connections<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            looked: std::sync::Arc::clone(&self.looked),
        }
    }
}

/// Shows how many connections there are. The options are left out: they hold the password.
impl<DB: Database> fmt::Debug for Connections<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.pool.status();
        f.debug_struct("Connections")
            .field("max", &status.max_size)
            .field("open", &status.size)
            .finish_non_exhaustive()
    }
}
