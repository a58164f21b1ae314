//! [`Connections`]: the connections of a store.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::{Connection, Database};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::ConnectionGuard;
use super::opener::Opener;

/// The store pings a connection that was idle for longer before it uses it.
const TRUSTED_IDLE: Duration = Duration::from_secs(30);

/// A connection that does not answer a ping for so long is closed.
const PING: Duration = Duration::from_secs(1);

/// The store closes a connection that was idle for longer, as sqlx's own pool does.
const MAX_IDLE: Duration = Duration::from_secs(10 * 60);

/// The store replaces a connection that is older, as sqlx's own pool does. The state that a server
/// keeps for a connection goes with it, and the name is looked up again, which may lead to another
/// server by then.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// How often the store searches for idle connections, when it acquires one.
const LOOK: Duration = Duration::from_secs(60);

/// Connections that a store keeps to itself. It opens them as they are needed, and reuses the one
/// that came back last.
///
/// A connection is opened beside the caller who needs it: one that comes back first is taken
/// instead, and the new one is there for the next caller. So a server or proxy that is slow to let
/// connections in holds up nobody who can have an idle one.
///
/// A clone shares them.
pub struct Connections<DB: Database>(Arc<Shared<DB>>);

pub(super) struct Shared<DB: Database> {
    opener: Opener<DB>,
    /// The most time that opening one may take.
    limit: Duration,
    max: usize,
    /// A permit for each connection that may be opened.
    slots: Arc<Semaphore>,
    /// A permit for each idle connection.
    returned: Semaphore,
    stack: Mutex<Stack<DB>>,
}

struct Stack<DB: Database> {
    idle: Vec<Idle<DB>>,
    looked: Instant,
}

struct Idle<DB: Database> {
    held: Held<DB>,
    since: Instant,
}

/// An open connection, which takes a slot.
pub(super) struct Held<DB: Database> {
    pub(super) connection: DB::Connection,
    opened: Instant,
    _slot: OwnedSemaphorePermit,
}

impl<DB: Database> Connections<DB> {
    /// Sets up at most `max` connections, each of which may take `limit` to open. Nothing is opened
    /// yet.
    #[must_use]
    pub fn new(opener: Opener<DB>, max: usize, limit: Duration) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Shared {
            opener,
            limit,
            max,
            slots: Arc::new(Semaphore::new(max)),
            returned: Semaphore::new(0),
            stack: Mutex::new(Stack {
                idle: Vec::new(),
                looked: Instant::now(),
            }),
        }))
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
    /// A connection that is being opened is kept for the next caller.
    pub async fn acquire(&self) -> Result<ConnectionGuard<DB>, sqlx::Error> {
        let shared = &self.0;
        shared.close_long_idle();
        let mut opening = None;
        loop {
            tokio::select! {
                biased;
                returned = shared.returned.acquire() => {
                    returned.map_err(|_| sqlx::Error::PoolClosed)?.forget();
                    if let Some(held) = shared.usable().await {
                        return Ok(ConnectionGuard::new(held, Arc::clone(shared)));
                    }
                }
                slot = Arc::clone(&shared.slots).acquire_owned(), if opening.is_none() => {
                    let slot = slot.map_err(|_| sqlx::Error::PoolClosed)?;
                    opening = Some(shared.open(slot));
                }
                failed = failure(&mut opening) => match failed {
                    Some(error) => return Err(error),
                    // It is open, and another caller may have taken it.
                    None => opening = None,
                },
            }
        }
    }

    /// Returns the most connections that there may be.
    #[must_use]
    pub fn max(&self) -> usize {
        self.0.max
    }

    /// Closes all idle connections if the network failed. A server that stopped, or a box on the way,
    /// has probably cut them, too.
    pub fn note(&self, error: &sqlx::Error) {
        if matches!(error, sqlx::Error::Io(_)) {
            self.close_idle();
        }
    }

    /// Closes all idle connections: they lead to the wrong server, as they do when a server refuses
    /// writes after a failover.
    pub fn close_idle(&self) {
        self.0.retain(|_| false);
    }

    /// Closes the idle connections now, and the others when they come back. No new ones are opened.
    pub fn close(&self) {
        self.0.slots.close();
        self.0.returned.close();
        self.0.retain(|_| false);
    }
}

/// Waits until opening a connection has failed; `None` when it has not.
async fn failure(opening: &mut Option<oneshot::Receiver<sqlx::Error>>) -> Option<sqlx::Error> {
    match opening {
        Some(failed) => failed.await.ok(),
        None => std::future::pending().await,
    }
}

impl<DB: Database> Shared<DB> {
    fn stack(&self) -> MutexGuard<'_, Stack<DB>> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection in a task of its own; the receiver gets the error, if there is one.
    fn open(self: &Arc<Self>, slot: OwnedSemaphorePermit) -> oneshot::Receiver<sqlx::Error> {
        let (failed, failure) = oneshot::channel();
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let late = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            let opened = timeout(shared.limit, shared.opener.open()).await;
            match opened.unwrap_or_else(late) {
                Ok(connection) => shared.give_back(Held {
                    connection,
                    opened: Instant::now(),
                    _slot: slot,
                }),
                // The caller may have got another one.
                Err(error) => drop(failed.send(error)),
            }
        });
        failure
    }

    /// Returns the connection that came back last, if it still works.
    async fn usable(&self) -> Option<Held<DB>> {
        let Idle { mut held, since } = self.stack().idle.pop()?;
        if held.opened.elapsed() > MAX_AGE {
            return None;
        }
        if since.elapsed() > TRUSTED_IDLE
            && !matches!(timeout(PING, held.connection.ping()).await, Ok(Ok(())))
        {
            self.retain(|_| false);
            return None;
        }
        Some(held)
    }

    /// Makes a connection available; closes it after the close.
    pub(super) fn give_back(&self, held: Held<DB>) {
        let since = Instant::now();
        let mut stack = self.stack();
        if !self.returned.is_closed() {
            stack.idle.push(Idle { held, since });
            self.returned.add_permits(1);
        }
    }

    fn close_long_idle(&self) {
        let mut stack = self.stack();
        if stack.looked.elapsed() >= LOOK {
            stack.looked = Instant::now();
            drop(stack);
            self.retain(|idle| idle.since.elapsed() < MAX_IDLE);
        }
    }

    /// Closes the other idle connections.
    fn retain(&self, keep: impl Fn(&Idle<DB>) -> bool) {
        let mut stack = self.stack();
        let (kept, closed) = stack.idle.drain(..).partition(keep);
        stack.idle = kept;
        // A caller who has a permit already finds none, and waits again.
        self.returned.forget_permits(closed.len());
        drop(stack);
        drop::<Vec<_>>(closed);
    }
}

impl<DB: Database> Clone for Connections<DB> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Shows how many connections there are. The options are left out: they hold the password.
impl<DB: Database> fmt::Debug for Connections<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("max", &self.0.max)
            .field("open", &(self.0.max - self.0.slots.available_permits()))
            .finish_non_exhaustive()
    }
}
