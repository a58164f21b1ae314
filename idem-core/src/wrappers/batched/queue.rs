//! [`Queue`]: the waiting callers, and the busy lanes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::work::Work;
use crate::{Effect, Error, ErrorKind, Result};

/// Most bytes in one batch, about; a larger item is a batch by itself. This is well below what
/// servers accept in one statement.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// The bounds of lanes, batches and waiting callers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) lanes: usize,
    pub(super) batch: usize,
    pub(super) waiting: usize,
    /// How long a caller waits for the answer of a batch.
    pub(super) timeout: Duration,
}

/// The queue of one kind of operation.
///
/// A lane is the right to make one call of the store. A caller that arrives while one is free takes
/// it and does not wait; one that arrives while all are busy waits for a batch. Whenever a caller
/// waits, all lanes are busy.
pub(super) struct Queue<W: Work> {
    bounds: Bounds,
    state: Mutex<State<W>>,
}

struct State<W: Work> {
    waiting: VecDeque<Waiter<W>>,
    busy: usize,
    next_id: u64,
}

/// A waiting caller, and its item.
pub(super) struct Waiter<W: Work> {
    id: u64,
    pub(super) work: W,
    pub(super) caller: Caller<W>,
}

/// A caller that waits for an answer, and may have gone.
pub(super) struct Caller<W: Work>(oneshot::Sender<Reply<W>>);

impl<W: Work> Caller<W> {
    pub(super) fn answer(self, answer: Result<W::Answer>) {
        // A caller that has gone needs no answer.
        let _ = self.0.send(Reply::Answer(answer));
    }

    fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

/// The message to a waiting caller.
pub(super) enum Reply<W: Work> {
    Answer(Result<W::Answer>),
    /// The lane is the caller's: its previous owner is gone.
    Lead(Lane<W>),
}

/// The result of [`Queue::enter`].
pub(super) enum Entry<W: Work> {
    Leads(Lane<W>),
    Waits {
        /// Its name in the queue.
        id: u64,
        answer: oneshot::Receiver<Reply<W>>,
    },
}

impl<W: Work> Queue<W> {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                busy: 0,
                next_id: 0,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free lane, or queues.
    pub(super) fn enter(self: &Arc<Self>, work: impl FnOnce() -> W) -> Result<Entry<W>> {
        if let Some(lane) = self.free_lane(&mut self.state())? {
            return Ok(Entry::Leads(lane));
        }
        // The copy of the work is made outside the lock, so that no other caller waits for it.
        let work = work();
        let (sender, answer) = oneshot::channel();
        let mut state = self.state();
        if let Some(lane) = self.free_lane(&mut state)? {
            return Ok(Entry::Leads(lane));
        }
        let id = state.next_id;
        state.next_id += 1;
        state.waiting.push_back(Waiter {
            id,
            work,
            caller: Caller(sender),
        });
        Ok(Entry::Waits { id, answer })
    }

    /// Takes a caller out of the queue; returns whether it was still in it, and so never sent.
    pub(super) fn leave(&self, id: u64) -> bool {
        let mut state = self.state();
        let position = state.waiting.iter().position(|waiter| waiter.id == id);
        position.and_then(|at| state.waiting.remove(at)).is_some()
    }

    fn free_lane(self: &Arc<Self>, state: &mut State<W>) -> Result<Option<Lane<W>>> {
        if state.busy < self.bounds.lanes {
            state.busy += 1;
            let queue = Some(Arc::clone(self));
            return Ok(Some(Lane { queue }));
        }
        if state.waiting.len() >= self.bounds.waiting {
            return Err(self.is_full());
        }
        Ok(None)
    }

    fn is_full(&self) -> Error {
        let waiting = self.bounds.waiting;
        let message = format!("{waiting} callers wait for the store already; ask again later");
        Error::new(ErrorKind::Unavailable, Effect::None, message)
    }

    /// Returns the next batch; if it is empty, the lane is free.
    fn take(&self) -> Vec<Waiter<W>> {
        let mut state = self.state();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < self.bounds.batch {
            let Some(next) = state.waiting.front() else {
                break;
            };
            let more = next.work.bytes();
            if !batch.is_empty() && bytes + more > MAX_BATCH_BYTES {
                break;
            }
            let next = state.waiting.pop_front();
            if let Some(next) = next.filter(|next| !next.caller.is_gone()) {
                bytes += more;
                batch.push(next);
            }
        }
        if batch.is_empty() {
            state.busy -= 1;
        }
        batch
    }

    /// Hands the lane to the first waiting caller that is still there, or frees it.
    fn hand_over(self: Arc<Self>) {
        loop {
            let mut state = self.state();
            let Some(next) = state.waiting.pop_front() else {
                state.busy -= 1;
                return;
            };
            drop(state);
            let lane = Lane {
                queue: Some(Arc::clone(&self)),
            };
            match next.caller.0.send(Reply::Lead(lane)) {
                Ok(()) => return,
                Err(Reply::Lead(mut lane)) => lane.queue = None,
                Err(Reply::Answer(_)) => {}
            }
        }
    }
}

/// The right to make one call of the store at a time. Its drop passes it on.
pub(super) struct Lane<W: Work> {
    queue: Option<Arc<Queue<W>>>,
}

impl<W: Work> Lane<W> {
    /// Returns whether a caller waits.
    pub(super) fn is_wanted(&self) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|queue| !queue.state().waiting.is_empty())
    }

    /// Returns the callers to send for next. If there are none, the lane is given back.
    pub(super) fn take(&mut self) -> Vec<Waiter<W>> {
        let Some(queue) = &self.queue else {
            return Vec::new();
        };
        let batch = queue.take();
        if batch.is_empty() {
            self.queue = None;
        }
        batch
    }

    /// Puts callers back before all others.
    pub(super) fn put_back(&self, waiters: Vec<Waiter<W>>) {
        if let Some(queue) = &self.queue {
            let mut state = queue.state();
            for waiter in waiters.into_iter().rev() {
                state.waiting.push_front(waiter);
            }
        }
    }
}

impl<W: Work> Drop for Lane<W> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.hand_over();
        }
    }
}

impl<W: Work> fmt::Debug for Queue<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Queue")
            .field("bounds", &self.bounds)
            .field("waiting", &state.waiting.len())
            .field("busy", &state.busy)
            .finish()
    }
}
