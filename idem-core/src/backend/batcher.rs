//! [`Batcher`]: concurrent callers share one round trip.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The number of concurrent callers from which batching pays. With fewer, a round trip for each is
/// as good, and nobody waits for the turn of the runtime that batching takes.
const COMPANY: usize = 8;

/// Most bytes in one batch, about; a larger item is a batch by itself. This is well below what
/// servers accept in one statement.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// Sends a batch and answers its callers.
type SendBatch<I, O> = Box<
    dyn Fn(Arc<Batcher<I, O>>, Vec<Waiter<I, O>>) -> Pin<Box<dyn Future<Output = ()> + Send>>
        + Send
        + Sync,
>;

/// Collects the items of concurrent callers into batches: for implementers of stores.
///
/// A caller that [`enter`](Self::enter)s while few others are under way makes its call by itself,
/// in its own task. Any other one [`ask`](Self::ask)s: its item goes into the next batch. A batch
/// leaves after one turn of the runtime, so that callers that are ready to run add their items.
/// There is no timer: nobody waits for callers that may come. While as many calls are under way as
/// allowed, callers wait for the first to end.
///
/// A batch runs in a task of its own, so a dropped caller takes no other caller's answer with it.
/// An item whose caller is dropped before the batch leaves is not sent. Where the task of a batch
/// ends early, with its runtime or by a panic, a waiting caller takes over.
///
/// Batching changes which items share a round trip, and no answer. Use it for calls that can be
/// repeated, or whose answers say what became of each item.
pub struct Batcher<I: Send + 'static, O: Send + 'static> {
    bounds: Bounds<I>,
    state: Mutex<State<I, O>>,
    send: SendBatch<I, O>,
}

/// The bounds of calls, batches and waiting callers.
pub(crate) struct Bounds<I> {
    /// The number of callers under way from which a further one does not call by itself.
    pub(crate) alone: usize,
    /// Most batches at a time. They and the calls of callers by themselves share as many lanes, or
    /// as many as there may be such calls, if that is more.
    pub(crate) batches: usize,
    /// Most items of a batch.
    pub(crate) items: usize,
    /// Most waiting callers.
    pub(crate) waiting: usize,
    /// Returns about how many bytes an item has on the wire.
    pub(crate) bytes: fn(&I) -> usize,
}

struct State<I: Send + 'static, O: Send + 'static> {
    waiting: VecDeque<Waiter<I, O>>,
    next_id: u64,
    /// The lanes in use.
    busy: usize,
    /// Those of them that are for batches.
    batches: usize,
    /// Those of them that take the waiting callers within a turn of the runtime.
    leading: usize,
    /// The callers whose calls are under way, and at least one for each lane.
    callers: usize,
}

/// A waiting caller, and its item.
pub(crate) struct Waiter<I: Send + 'static, O: Send + 'static> {
    id: u64,
    pub(crate) item: I,
    pub(crate) caller: Caller<I, O>,
}

/// A caller that waits for an answer, and may have gone.
pub(crate) struct Caller<I: Send + 'static, O: Send + 'static>(oneshot::Sender<Reply<I, O>>);

impl<I: Send + 'static, O: Send + 'static> Caller<I, O> {
    pub(crate) fn answer(self, answer: O) {
        // A caller that has gone needs no answer.
        let _ = self.0.send(Reply::Answer(answer));
    }
}

/// The message to a waiting caller. It does not come when the task that sent the item is gone.
pub(crate) enum Reply<I: Send + 'static, O: Send + 'static> {
    Answer(O),
    /// The caller has this lane for a call by itself; its item was not sent.
    Lead(Lane<I, O>),
}

/// The wait of a caller for its batch.
pub(crate) struct Wait<I: Send + 'static, O: Send + 'static> {
    /// Its name in the queue.
    pub(crate) id: u64,
    pub(crate) reply: oneshot::Receiver<Reply<I, O>>,
}

/// A caller under way. One that calls by itself counts until this is dropped, one in a batch until
/// the batch has ended.
#[derive(Debug)]
pub struct Underway<I: Send + 'static, O: Send + 'static>(Option<Lane<I, O>>);

impl<I: Send + 'static, O: Send + 'static> Underway<I, O> {
    /// Returns whether there are enough concurrent callers for batching to pay: 8.
    #[must_use]
    pub fn is_in_company(&self) -> bool {
        self.0.is_none()
    }
}

impl<I: Send + 'static, O: Send + 'static> Batcher<I, O> {
    /// The number of concurrent callers from which batching pays: 8.
    pub const COMPANY: usize = COMPANY;

    /// Creates a batcher: a batch has at most `most` items, and at most `batches` of them are under
    /// way at a time. `answer` returns an answer for each item, in order; an item without one gets
    /// `None`.
    pub fn new<F>(
        most: usize,
        batches: usize,
        answer: impl Fn(Vec<I>) -> F + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = Vec<O>> + Send + 'static,
    {
        let bounds = Bounds {
            alone: COMPANY,
            batches: batches.max(1),
            items: most.max(1),
            waiting: usize::MAX,
            bytes: |_| 0,
        };
        Self::with_bounds(bounds, move |_, waiters| {
            let waiters = waiters.into_iter();
            let (items, callers): (Vec<_>, Vec<_>) =
                waiters.map(|waiter| (waiter.item, waiter.caller)).unzip();
            let answers = answer(items);
            async move {
                for (caller, answer) in callers.into_iter().zip(answers.await) {
                    caller.answer(answer);
                }
            }
        })
    }

    /// Creates a batcher whose batches are sent, and their callers answered, by `send`.
    pub(crate) fn with_bounds<F>(
        bounds: Bounds<I>,
        send: impl Fn(Arc<Self>, Vec<Waiter<I, O>>) -> F + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Arc::new(Self {
            bounds,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                next_id: 0,
                busy: 0,
                batches: 0,
                leading: 0,
                callers: 0,
            }),
            send: Box::new(move |batcher, waiters| Box::pin(send(batcher, waiters))),
        })
    }

    /// Adds a caller, and decides whether it calls by itself.
    pub fn enter(self: &Arc<Self>) -> Underway<I, O> {
        Underway(self.alone())
    }

    /// Returns a lane for a call by itself, if few callers are under way.
    pub(crate) fn alone(self: &Arc<Self>) -> Option<Lane<I, O>> {
        let mut state = self.state();
        let underway = state.callers + state.waiting.len();
        (underway < self.bounds.alone).then(|| Lane::new(self, &mut state, Role::Alone))
    }

    /// Adds the item to the next batch and returns its answer. `None` when the batch's task ended
    /// without one, for example with its runtime; whether the batch was sent is then unknown.
    ///
    /// # Cancellation
    ///
    /// If the item was not sent yet, it never is; otherwise its answer is lost.
    pub async fn ask(self: &Arc<Self>, item: I) -> Option<O> {
        match self.wait(item)?.reply.await.ok()? {
            Reply::Answer(answer) => Some(answer),
            Reply::Lead(_) => None,
        }
    }

    /// Adds the item to the next batch; `None` if too many callers wait already.
    pub(crate) fn wait(self: &Arc<Self>, item: I) -> Option<Wait<I, O>> {
        let (sender, reply) = oneshot::channel();
        let mut state = self.state();
        if state.waiting.len() >= self.bounds.waiting {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        let caller = Caller(sender);
        state.waiting.push_back(Waiter { id, item, caller });
        self.lead(state);
        Some(Wait { id, reply })
    }

    /// Takes a caller out of the queue; returns whether it was still in it, and so never sent.
    pub(crate) fn leave(&self, id: u64) -> bool {
        let mut state = self.state();
        let position = state.waiting.iter().position(|waiter| waiter.id == id);
        position.and_then(|at| state.waiting.remove(at)).is_some()
    }

    /// Puts callers back before all others.
    pub(crate) fn put_back(&self, waiters: Vec<Waiter<I, O>>) {
        let mut state = self.state();
        for waiter in waiters.into_iter().rev() {
            state.waiting.push_front(waiter);
        }
    }

    /// Sends for the waiting callers, in a task of its own, where a lane is free.
    fn lead(self: &Arc<Self>, mut state: MutexGuard<'_, State<I, O>>) {
        if state.waiting.is_empty() || state.leading > 0 || !state.allows_batch(&self.bounds) {
            return;
        }
        let lane = Lane::new(self, &mut state, Role::Leads);
        drop(state);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(lane.run());
        }
    }

    /// Makes the first waiting caller that is still there the owner of a lane.
    fn hand_over(self: &Arc<Self>, mut state: MutexGuard<'_, State<I, O>>) {
        while let Some(Waiter { caller, .. }) = state.waiting.pop_front() {
            if caller.0.is_closed() {
                continue;
            }
            let lane = Lane::new(self, &mut state, Role::Alone);
            drop(state);
            // If the caller has gone meanwhile, the lane is dropped, and goes to the next one.
            let _ = caller.0.send(Reply::Lead(lane));
            return;
        }
    }

    fn state(&self) -> MutexGuard<'_, State<I, O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to make one call at a time. Its drop passes it on.
pub(crate) struct Lane<I: Send + 'static, O: Send + 'static> {
    /// `None` when it has been given back.
    batcher: Option<Arc<Batcher<I, O>>>,
    role: Role,
    /// What it counts for in [`State::callers`].
    callers: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A caller's own call.
    Alone,
    /// A task that takes the waiting callers in a turn of the runtime.
    Leads,
    /// A task that sends a batch.
    Sends,
}

impl<I: Send + 'static, O: Send + 'static> Lane<I, O> {
    fn new(batcher: &Arc<Batcher<I, O>>, state: &mut State<I, O>, role: Role) -> Self {
        let lane = Self {
            batcher: Some(Arc::clone(batcher)),
            role,
            callers: 1,
        };
        lane.count(state);
        lane
    }

    /// Sends one batch after the other until no caller waits.
    async fn run(mut self) {
        let Some(batcher) = self.batcher.clone() else {
            return;
        };
        loop {
            // Callers that are ready to run, and those that have just got their answers, come first:
            // they may add an item.
            tokio::task::yield_now().await;
            let waiters = self.take(&batcher);
            if waiters.is_empty() {
                return;
            }
            (batcher.send)(Arc::clone(&batcher), waiters).await;
            batcher.state().leading += 1;
            self.role = Role::Leads;
        }
    }

    /// Returns the callers to send for next. If there are none, the lane is given back.
    fn take(&mut self, batcher: &Arc<Batcher<I, O>>) -> Vec<Waiter<I, O>> {
        let mut state = batcher.state();
        self.uncount(&mut state);
        let batch = state.next_batch(&batcher.bounds);
        if batch.is_empty() {
            self.batcher = None;
            return batch;
        }
        (self.role, self.callers) = (Role::Sends, batch.len());
        self.count(&mut state);
        batcher.lead(state);
        batch
    }

    fn count(&self, state: &mut State<I, O>) {
        state.busy += 1;
        state.batches += usize::from(self.role != Role::Alone);
        state.leading += usize::from(self.role == Role::Leads);
        state.callers += self.callers;
    }

    fn uncount(&self, state: &mut State<I, O>) {
        state.busy -= 1;
        state.batches -= usize::from(self.role != Role::Alone);
        state.leading -= usize::from(self.role == Role::Leads);
        state.callers -= self.callers;
    }
}

impl<I: Send + 'static, O: Send + 'static> State<I, O> {
    fn allows_batch(&self, bounds: &Bounds<I>) -> bool {
        self.batches < bounds.batches && self.busy < bounds.batches.max(bounds.alone)
    }

    fn next_batch(&mut self, bounds: &Bounds<I>) -> Vec<Waiter<I, O>> {
        let mut batch = Vec::with_capacity(self.waiting.len().min(bounds.items));
        let mut bytes = 0;
        while batch.len() < bounds.items
            && let Some(next) = self.waiting.front()
        {
            let more = (bounds.bytes)(&next.item);
            if !batch.is_empty() && bytes + more > MAX_BATCH_BYTES {
                break;
            }
            let next = self.waiting.pop_front();
            if let Some(next) = next.filter(|next| !next.caller.0.is_closed()) {
                bytes += more;
                batch.push(next);
            }
        }
        batch
    }
}

impl<I: Send + 'static, O: Send + 'static> Drop for Lane<I, O> {
    fn drop(&mut self) {
        let Some(batcher) = self.batcher.take() else {
            return;
        };
        let mut state = batcher.state();
        self.uncount(&mut state);
        match self.role {
            Role::Alone => batcher.lead(state),
            // The task ends early, and with it perhaps this runtime.
            Role::Leads | Role::Sends => batcher.hand_over(state),
        }
    }
}

impl<I: Send + 'static, O: Send + 'static> fmt::Debug for Lane<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("role", &self.role)
            .field("callers", &self.callers)
            .finish_non_exhaustive()
    }
}

impl<I: Send + 'static, O: Send + 'static> fmt::Debug for Batcher<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Batcher")
            .field("waiting", &state.waiting.len())
            .field("busy", &state.busy)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use super::*;

    const MAX_ITEMS: usize = 128;

    /// Answers each item with itself and with the size of its batch.
    fn echo() -> Arc<Batcher<u32, (u32, usize)>> {
        Batcher::new(MAX_ITEMS, usize::MAX, |items: Vec<u32>| {
            let count = items.len();
            async move { items.into_iter().map(|item| (item, count)).collect() }
        })
    }

    /// Polls once; `None` while it waits.
    async fn once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        poll_fn(|context| match Pin::new(&mut *future).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    type Pending<O> = Pin<Box<dyn Future<Output = Option<O>> + Send>>;

    fn submit<O: Send + 'static>(batcher: &Arc<Batcher<u32, O>>, item: u32) -> Pending<O> {
        let batcher = Arc::clone(batcher);
        Box::pin(async move { batcher.ask(item).await })
    }

    #[tokio::test]
    async fn concurrent_callers_share_batches_and_each_gets_its_answer() {
        let batcher = echo();
        let callers: Vec<_> = (0..300)
            .map(|item| tokio::spawn(submit(&batcher, item)))
            .collect();
        for (item, caller) in (0..).zip(callers) {
            let expected = if item < 256 {
                MAX_ITEMS
            } else {
                300 - 2 * MAX_ITEMS
            };
            assert_eq!(caller.await.unwrap(), Some((item, expected)));
        }
    }

    #[tokio::test]
    async fn a_dropped_leader_leaves_no_caller_waiting() {
        let batcher = echo();
        let mut leader = submit(&batcher, 1);
        assert!(once(&mut leader).await.is_none());
        let mut other = submit(&batcher, 2);
        assert!(once(&mut other).await.is_none());
        drop(leader);
        assert_eq!(
            other.await,
            Some((2, 1)),
            "and the dropped item is not sent"
        );
        assert_eq!(batcher.ask(3).await, Some((3, 1)));
    }

    #[tokio::test]
    async fn a_batch_without_answers_returns_none_to_its_callers() {
        let batcher: Arc<Batcher<u32, u32>> = Batcher::new(MAX_ITEMS, 1, |_| async { Vec::new() });
        assert_eq!(batcher.ask(1).await, None);
        assert_eq!(batcher.ask(2).await, None, "the next batch is sent");
    }

    #[tokio::test]
    async fn a_batch_that_panics_makes_room_for_the_next() {
        let batcher: Arc<Batcher<u32, u32>> =
            Batcher::new(MAX_ITEMS, 1, |items: Vec<u32>| async move {
                assert_ne!(items, [1], "the first one stumbles");
                items
            });
        assert_eq!(batcher.ask(1).await, None);
        assert_eq!(batcher.ask(2).await, Some(2));
    }

    #[tokio::test]
    async fn a_caller_beside_batches_under_way_goes_with_the_next() {
        let (open, gate) = tokio::sync::watch::channel(false);
        let batcher: Arc<Batcher<u32, (u32, usize)>> =
            Batcher::new(MAX_ITEMS, 2, move |items: Vec<u32>| {
                let mut gate = gate.clone();
                async move {
                    gate.wait_for(|is_open| *is_open).await.unwrap();
                    let count = items.len();
                    items.into_iter().map(|item| (item, count)).collect()
                }
            });
        let mut callers = Vec::new();
        for item in 0..10 {
            callers.push(tokio::spawn(submit(&batcher, item)));
            // The leader sends, where there is room.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(batcher.state().waiting.len(), 8, "two batches of one each");
        open.send(true).unwrap();
        let mut counts = Vec::new();
        for (item, caller) in (0..).zip(callers) {
            let (returned, count) = caller.await.unwrap().unwrap();
            assert_eq!(returned, item);
            counts.push(count);
        }
        assert_eq!(counts, [1, 1, 8, 8, 8, 8, 8, 8, 8, 8]);
        // A lane is given back a turn after its last answer.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(batcher.state().busy, 0);
    }

    #[tokio::test]
    async fn no_more_batches_are_under_way_than_allowed() {
        let (underway, max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, seen) = (Arc::clone(&underway), Arc::clone(&max));
        let batcher: Arc<Batcher<u32, u32>> = Batcher::new(16, 2, move |items: Vec<u32>| {
            let (counted, seen) = (Arc::clone(&counted), Arc::clone(&seen));
            async move {
                let now = counted.fetch_add(1, Ordering::Relaxed) + 1;
                seen.fetch_max(now, Ordering::Relaxed);
                tokio::task::yield_now().await;
                counted.fetch_sub(1, Ordering::Relaxed);
                items
            }
        });
        let callers: Vec<_> = (0..300)
            .map(|item| tokio::spawn(submit(&batcher, item)))
            .collect();
        for (item, caller) in (0..).zip(callers) {
            assert_eq!(caller.await.unwrap(), Some(item));
        }
        assert_eq!(max.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_end_of_the_leaders_runtime_ends_the_waits_on_other_runtimes() {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().build().unwrap()
        };
        let batcher: Arc<Batcher<u32, u32>> = Batcher::new(1, 1, |_| pending());
        let (first, second) = (runtime(), runtime());
        for item in 0..3 {
            first.spawn(submit(&batcher, item));
        }
        first.block_on(tokio::task::yield_now());
        let mut other = submit(&batcher, 3);
        assert!(second.block_on(once(&mut other)).is_none());
        drop(first);
        assert_eq!(second.block_on(other), None);
        assert_eq!(batcher.state().busy, 0);
    }

    #[test]
    fn a_few_callers_are_not_batched() {
        let batcher = echo();
        let few: Vec<_> = (0..COMPANY).map(|_| batcher.enter()).collect();
        assert!(few.iter().all(|caller| !caller.is_in_company()));
        assert!(batcher.enter().is_in_company());
        drop(few);
        assert!(!batcher.enter().is_in_company());
    }
}
