//! [`Groups`]: works that wait for the write lock run one after the other in one transaction, each
//! in a savepoint, and share its commit.
//!
//! No caller gets an answer before the commit. A work ends its group early when it is dropped, or
//! when it ends the transaction or its savepoint by a statement. Then the whole transaction is
//! rolled back; each of the other works gets an error that calls for a repetition, and runs alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::guarded::Transaction;

/// Whether the works of the engine share transactions, for
/// [`Transactions::with_isolation`](idem_sql::transactions::Transactions::with_isolation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Works that wait for the write lock run one after the other in one transaction, each in a
    /// savepoint, and share its commit. At most 64 works join, within 10 ms. A work sees the rows
    /// of those before it. While works take longer than 10 ms on average, each runs alone.
    ///
    /// A work must not wait for another work's answer, which may come only after its own end.
    #[default]
    Together,
    /// Each work has a transaction of its own.
    Alone,
}

/// Most works of a group.
const MOST: usize = 64;

/// How long a group takes in another work, and how long works may take on average that share one:
/// the answers of those before wait for them. A work that has begun goes on.
const LIMIT: Duration = Duration::from_millis(10);

/// The works of one pool that wait for the write lock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    /// Whether a [`Lead`] exists.
    is_led: bool,
    waiting: VecDeque<oneshot::Sender<Turn>>,
    /// How many works are to run alone, because their group has failed.
    alone: usize,
    /// How long works take: a moving average.
    typical: Duration,
    #[cfg(test)]
    is_patient: bool,
}

/// How a work gets its transaction.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Begins one.
    Lead(Lead),
    /// Joins one.
    Join(Transaction),
}

/// The right to begin a transaction. Its drop gives the right to the next work.
#[derive(Debug)]
pub(crate) struct Lead(Groups);

/// The works that share a transaction.
#[derive(Debug)]
pub(crate) struct Group {
    lead: Lead,
    since: Instant,
    /// When the current work began.
    begun: Instant,
    /// The works before it, which wait for the commit. `Err` has the effect of a failed commit.
    ended: Vec<oneshot::Sender<Result<(), Effect>>>,
}

impl Queue {
    fn limit(&self) -> Duration {
        #[cfg(test)]
        if self.is_patient {
            return Duration::MAX;
        }
        LIMIT
    }
}

impl Groups {
    /// Creates groups that a slow machine does not end.
    #[cfg(test)]
    pub(crate) fn patient() -> Self {
        let groups = Self::default();
        groups.queue().is_patient = true;
        groups
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a transaction, or for the right to begin one.
    pub(crate) async fn turn(&self) -> Turn {
        loop {
            let turn = {
                let mut queue = self.queue();
                if !queue.is_led {
                    queue.is_led = true;
                    return Turn::Lead(Lead(self.clone()));
                }
                let (sent, turn) = oneshot::channel();
                queue.waiting.push_back(sent);
                turn
            };
            if let Ok(turn) = turn.await {
                return turn;
            }
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.alone = queue.alone.saturating_sub(1);
        while let Some(next) = queue.waiting.pop_front() {
            // A waiter that is gone would drop its lead under the lock.
            if next.is_closed() {
                continue;
            }
            drop(queue);
            // A lead that comes back is dropped here, which gives the right to the next work.
            let _ = next.send(Turn::Lead(Lead(self.0.clone())));
            return;
        }
        queue.is_led = false;
    }
}

impl Group {
    pub(crate) fn new(lead: Lead) -> Self {
        let since = Instant::now();
        Self {
            lead,
            since,
            begun: since,
            ended: Vec::new(),
        }
    }

    /// Returns whether other works have ended in the transaction, uncommitted.
    pub(crate) fn is_shared(&self) -> bool {
        !self.ended.is_empty()
    }

    pub(crate) fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// Ends the part of a work, which then waits for the result of the commit.
    pub(crate) fn wait(&mut self) -> oneshot::Receiver<Result<(), Effect>> {
        let mut queue = self.lead.0.queue();
        queue.typical = (queue.typical * 7 + self.begun.elapsed()) / 8;
        drop(queue);
        let (ended, committed) = oneshot::channel();
        self.ended.push(ended);
        committed
    }

    /// Returns the next work that joins; `None` where it is time to commit.
    pub(crate) fn next(&self) -> Option<oneshot::Sender<Turn>> {
        let mut queue = self.lead.0.queue();
        let is_full = self.ended.len() >= MOST || self.since.elapsed() >= queue.limit();
        match is_full || queue.alone > 0 || queue.typical > queue.limit() {
            true => None,
            false => queue.waiting.pop_front(),
        }
    }

    /// Sends the result of the commit to all works that wait.
    pub(crate) fn tell(&mut self, committed: Result<(), Effect>) {
        if committed.is_err() {
            // The drop of the lead subtracts one.
            self.lead.0.queue().alone += self.ended.len() + 1;
        }
        for ended in self.ended.drain(..) {
            let _ = ended.send(committed);
        }
    }
}

/// Returns the error of a work whose group was not committed, or may not have been.
pub(crate) fn not_committed(effect: Effect) -> Error {
    let message = "the transaction that this work shared with others failed; repeat the work";
    Error::new(ErrorKind::Contention, effect, message)
}
