//! [`Connections`]: the connections of a store.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool::managed::{Pool, PoolError, QueueMode};
use sqlx::{Connection, Database};

use super::ConnectionGuard;
use super::opener::Opener;

/// A connection that nobody needed for so long is closed, as by sqlx's own pool.
const MAX_IDLE: Duration = Duration::from_secs(10 * 60);

/// How often the store looks for such connections, when it acquires one.
const LOOK: Duration = Duration::from_secs(60);

/// Connections that a store keeps to itself: opened as they are needed, the one that was handed
/// back last comes first.
///
/// A clone shares them.
pub struct Connections<DB: Database> {
    pool: Pool<Opener<DB>>,
    looked: std::sync::Arc<Mutex<Instant>>,
}

impl<DB: Database> Connections<DB> {
    /// At most `max` connections, made with these options. Nothing is opened yet.
    ///
    /// # Errors
    ///
    /// `Configuration`, if the pool cannot be set up.
    pub fn new(
        options: <DB::Connection as Connection>::Options,
        max: usize,
    ) -> Result<Self, sqlx::Error> {
        let pool = Pool::builder(Opener { options })
            .max_size(max.max(1))
            .queue_mode(QueueMode::Lifo)
            .build()
            .map_err(|error| sqlx::Error::Configuration(error.into()))?;
        Ok(Self {
            pool,
            looked: std::sync::Arc::new(Mutex::new(Instant::now())),
        })
    }

    /// A connection for one operation; waits while all are in use. The caller sets the deadline.
    ///
    /// # Errors
    ///
    /// What opening one answers; [`PoolClosed`](sqlx::Error::PoolClosed) after
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

    /// How many there are at most.
    #[must_use]
    pub fn max(&self) -> usize {
        self.pool.status().max_size
    }

    /// Closes those that are not in use, and the others when they are handed back. There are no
    /// more connections then.
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

/// Shows how many there are, not how they are made: the options hold the password.
impl<DB: Database> fmt::Debug for Connections<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.pool.status();
        f.debug_struct("Connections")
            .field("max", &status.max_size)
            .field("open", &status.size)
            .finish_non_exhaustive()
    }
}
