//! [`Batcher`]: concurrent callers share one round trip.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The number of concurrent callers from which batching pays. With fewer, a round trip for each is
/// as good, and nobody waits for the turn of the runtime that batching takes.
const COMPANY: usize = 8;

/// Executes a batch: returns an answer for each item, in order.
type Answer<I, O> =
    Box<dyn Fn(Vec<I>) -> Pin<Box<dyn Future<Output = Vec<O>> + Send>> + Send + Sync>;

/// Collects the items of concurrent callers into batches: for implementers of stores.
///
/// The first caller yields for one turn of the runtime, so that callers that are ready to run add
/// their items; then it sends the batch. There is no timer: nobody waits for callers that may come.
/// While as many batches are under way as allowed, callers wait for the first to finish. A batch
/// runs in a task of its own, so a dropped caller takes no other caller's answer with it. An item
/// whose caller is dropped before the batch leaves is not sent.
///
/// Batching changes which items share a round trip, and no answer. Use it for calls that can be
/// repeated, or whose answers say what became of each item.
pub struct Batcher<I, O> {
    waiting: Mutex<Waiting<I, O>>,
    underway: AtomicUsize,
    most: usize,
    batches: usize,
    answer: Answer<I, O>,
}

struct Waiting<I, O> {
    callers: Vec<Caller<I, O>>,
    is_led: bool,
    batches: usize,
}

type Caller<I, O> = (I, oneshot::Sender<O>);

/// Counts a caller until it is dropped.
#[derive(Debug)]
pub struct Underway<'g>(&'g AtomicUsize, usize);

impl Underway<'_> {
    /// Returns whether there are enough concurrent callers for batching to pay: 8.
    #[must_use]
    pub fn is_in_company(&self) -> bool {
        self.1 >= COMPANY
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The leader of the next batch; sends it on drop, also when its caller is dropped early.
struct Lead<I: Send + 'static, O: Send + 'static>(Arc<Batcher<I, O>>);

impl<I: Send + 'static, O: Send + 'static> Drop for Lead<I, O> {
    fn drop(&mut self) {
        self.0.send(true);
    }
}

/// A batch under way. When it ends, also by a panic or with its runtime, the next batch is sent
/// with the items that arrived meanwhile.
struct Turn<I: Send + 'static, O: Send + 'static>(Arc<Batcher<I, O>>);

impl<I: Send + 'static, O: Send + 'static> Drop for Turn<I, O> {
    fn drop(&mut self) {
        self.0.waiting().batches -= 1;
        self.0.send(false);
    }
}

impl<I: Send + 'static, O: Send + 'static> Batcher<I, O> {
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
        Arc::new(Self {
            waiting: Mutex::new(Waiting {
                callers: Vec::new(),
                is_led: false,
                batches: 0,
            }),
            underway: AtomicUsize::new(0),
            most: most.max(1),
            batches: batches.max(1),
            answer: Box::new(move |items| Box::pin(answer(items))),
        })
    }

    /// Counts one more caller, until the returned value is dropped.
    pub fn enter(&self) -> Underway<'_> {
        Underway(
            &self.underway,
            self.underway.fetch_add(1, Ordering::Relaxed),
        )
    }

    /// Adds the item to the next batch and returns its answer. `None` when the batch's task ended
    /// without one, for example with its runtime; whether the batch was sent is then unknown.
    ///
    /// # Cancellation
    ///
    /// If the item was not sent yet, it never is; otherwise its answer is lost.
    pub async fn ask(self: &Arc<Self>, item: I) -> Option<O> {
        let (caller, returned) = oneshot::channel();
        let leads = {
            let mut waiting = self.waiting();
            waiting.callers.push((item, caller));
            // Where no batch may be sent, the end of the first one sends the next.
            waiting.batches < self.batches && !std::mem::replace(&mut waiting.is_led, true)
        };
        if leads {
            let lead = Lead(Arc::clone(self));
            tokio::task::yield_now().await;
            drop(lead);
        }
        returned.await.ok()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<I, O>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends as many batches as allowed. Without a runtime the callers get no answer.
    fn send(self: &Arc<Self>, led: bool) {
        let mut led = led;
        while let Some(callers) = self.next(std::mem::take(&mut led)) {
            let turn = Turn(Arc::clone(self));
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(ask_for(turn, callers));
            }
        }
    }

    /// Returns the callers of the next batch, which counts as under way from here on.
    fn next(&self, led: bool) -> Option<Vec<Caller<I, O>>> {
        let mut waiting = self.waiting();
        if led {
            waiting.is_led = false;
        }
        if waiting.callers.is_empty() || waiting.is_led || waiting.batches >= self.batches {
            return None;
        }
        waiting.batches += 1;
        let later = waiting.callers.len().min(self.most);
        let later = waiting.callers.split_off(later);
        Some(std::mem::replace(&mut waiting.callers, later))
    }
}

async fn ask_for<I: Send + 'static, O: Send + 'static>(
    turn: Turn<I, O>,
    callers: Vec<Caller<I, O>>,
) {
    let still = callers
        .into_iter()
        .filter(|(_, returned)| !returned.is_closed());
    let (items, returned): (Vec<_>, Vec<_>) = still.unzip();
    if items.is_empty() {
        return;
    }
    let answers = (turn.0.answer)(items).await;
    for (returned, answer) in returned.into_iter().zip(answers) {
        // A caller that was dropped no longer waits.
        let _ = returned.send(answer);
    }
}

impl<I, O> fmt::Debug for Batcher<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher")
            .field("underway", &self.underway)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
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
        assert_eq!(
            batcher.waiting().callers.len(),
            8,
            "two batches of one each"
        );
        open.send(true).unwrap();
        let mut counts = Vec::new();
        for (item, caller) in (0..).zip(callers) {
            let (returned, count) = caller.await.unwrap().unwrap();
            assert_eq!(returned, item);
            counts.push(count);
        }
        assert_eq!(counts, [1, 1, 8, 8, 8, 8, 8, 8, 8, 8]);
        assert_eq!(batcher.waiting().batches, 0);
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
        assert_eq!(batcher.waiting().batches, 0);
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
