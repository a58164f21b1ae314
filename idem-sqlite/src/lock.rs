//! [`Gate`]: which caller waits for the write lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Result};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// How long the lock counts as taken after the first wait in vain; each further wait in vain
/// doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long sqlx may take to put a connection that was dropped back into its pool.
const MOMENT: Duration = Duration::from_millis(5);

/// How long one caller waits for the write lock without a commit. Every write takes that lock,
/// so the wait is longer than for a row of a server: a slow disk may hold it for a few hundred
/// milliseconds.
pub(crate) const MAX_LOCK_WAIT: Duration = Duration::from_millis(500);

/// SQLite has one write lock for all keys, so an open transaction that writes blocks all other
/// writers. One caller of the store at a time waits for the lock. After [`MAX_LOCK_WAIT`] without a
/// commit, the others get `Contention` at once, for a while.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    turn: Arc<tokio::sync::Mutex<()>>,
    taken: Mutex<Option<Taken>>,
    /// When a wait last ended.
    ended: Mutex<Option<Instant>>,
}

/// The state of a lock after a wait in vain.
#[derive(Debug, Clone, Copy)]
struct Taken {
    until: Instant,
    pause: Duration,
}

impl Gate {
    /// Returns the right to wait for the lock, which ends when it is dropped.
    pub(crate) async fn turn(&self) -> Result<OwnedMutexGuard<()>> {
        let turn = &self.0.turn;
        match *self.taken() {
            Some(taken) if Instant::now() < taken.until => return Err(contention()),
            // One caller tries whether the lock is still taken; the others do not wait for that
            // caller.
            Some(_) => return Arc::clone(turn).try_lock_owned().map_err(|_| contention()),
            None => {}
        }
        let turn = Arc::clone(turn).lock_owned().await;
        let is_taken = self.taken().is_some();
        match is_taken {
            true => Err(contention()),
            false => Ok(turn),
        }
    }

    /// Notes that a wait was in vain.
    pub(crate) fn found_taken(&self) {
        let mut taken = self.taken();
        let pause = taken.map_or(FIRST_PAUSE, |taken| (taken.pause * 2).min(LONGEST_PAUSE));
        let until = Instant::now() + pause;
        *taken = Some(Taken { until, pause });
    }

    /// Notes that a write succeeded.
    pub(crate) fn found_free(&self) {
        *self.taken() = None;
    }

    fn taken(&self) -> MutexGuard<'_, Option<Taken>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a caller waits no longer.
    pub(crate) fn wait_ended(&self) {
        *self.ended() = Some(Instant::now());
    }

    /// Returns whether a wait ended a moment ago.
    pub(crate) fn has_just_ended(&self) -> bool {
        self.ended().is_some_and(|ended| ended.elapsed() < MOMENT)
    }

    fn ended(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a caller waits for the lock: it shares the turn.
    pub(crate) fn is_waited_for(&self) -> bool {
        Arc::strong_count(&self.0.turn) > 1
    }
}

pub(crate) fn contention() -> Error {
    Error::new(
        ErrorKind::Contention,
        Effect::None,
        format!(
            "an open transaction has held the write lock of the database for {} ms (SQLite has one for all keys); ask \
             again when it has ended",
            MAX_LOCK_WAIT.as_millis()
        ),
    )
}
