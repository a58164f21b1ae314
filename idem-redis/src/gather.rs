//! [`Gather`]: callers that ask at the same time are asked for together.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// What is asked for at once at most: a server does nothing else meanwhile, and a script of so many keys takes it less
/// than a millisecond.
const MOST: usize = 128;

/// Callers under way from which on they are gathered. Below that a round trip each is as good, and nobody waits for the
/// turn of the runtime that gathering takes.
const COMPANY: usize = 8;

/// What does an errand for many: an answer for each, in their order.
type Errand<I, O> = Box<dyn Fn(Vec<I>) -> BoxFuture<'static, Vec<O>> + Send + Sync>;

/// Callers of whom each has an item and wants its answer.
///
/// The first of them lets those who are ready to run ask first, one turn of the runtime, and then sends for all. There
/// is no timer: nobody waits for callers who may come. What is asked for together runs in a task of its own, so a
/// caller who is dropped takes nobody's answer with it, and is left out if it is dropped before that.
pub(crate) struct Gather<I, O> {
    waiting: Mutex<Waiting<I, O>>,
    underway: AtomicUsize,
    errand: Errand<I, O>,
}

struct Waiting<I, O> {
    callers: Vec<Caller<I, O>>,
    is_led: bool,
}

type Caller<I, O> = (I, oneshot::Sender<O>);

/// Counts a caller until it is dropped.
pub(crate) struct Underway<'g>(&'g AtomicUsize, usize);

impl Underway<'_> {
    /// Whether there are others enough.
    pub(crate) fn is_in_company(&self) -> bool {
        self.1 >= COMPANY
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whoever leads sends for all, also when it is dropped before its turn.
struct Lead<I: Send + 'static, O: Send + 'static>(Arc<Gather<I, O>>);

impl<I: Send + 'static, O: Send + 'static> Drop for Lead<I, O> {
    fn drop(&mut self) {
        self.0.send();
    }
}

impl<I: Send + 'static, O: Send + 'static> Gather<I, O> {
    pub(crate) fn new(
        errand: impl Fn(Vec<I>) -> BoxFuture<'static, Vec<O>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::new(Waiting {
                callers: Vec::new(),
                is_led: false,
            }),
            underway: AtomicUsize::new(0),
            errand: Box::new(errand),
        })
    }

    /// A caller more, as long as what is returned lives.
    pub(crate) fn enter(&self) -> Underway<'_> {
        Underway(
            &self.underway,
            self.underway.fetch_add(1, Ordering::Relaxed),
        )
    }

    /// The item's answer; none when the task that asked ended without one, as with its runtime. Whether it has asked is
    /// not known then.
    pub(crate) async fn ask(self: &Arc<Self>, item: I) -> Option<O> {
        let (caller, told) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting();
            waiting.callers.push((item, caller));
            !std::mem::replace(&mut waiting.is_led, true)
        };
        if is_first {
            let lead = Lead(Arc::clone(self));
            tokio::task::yield_now().await;
            drop(lead);
        }
        told.await.ok()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<I, O>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends for all who wait. Without a runtime they are told that there is no answer.
    fn send(self: &Arc<Self>) {
        let mut callers = {
            let mut waiting = self.waiting();
            waiting.is_led = false;
            std::mem::take(&mut waiting.callers)
        };
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        while !callers.is_empty() {
            let later = callers.split_off(callers.len().min(MOST));
            runtime.spawn(Arc::clone(self).ask_for(callers));
            callers = later;
        }
    }

    async fn ask_for(self: Arc<Self>, callers: Vec<Caller<I, O>>) {
        let still = callers.into_iter().filter(|(_, told)| !told.is_closed());
        let (items, told): (Vec<_>, Vec<_>) = still.unzip();
        if items.is_empty() {
            return;
        }
        let answers = (self.errand)(items).await;
        for (told, answer) in told.into_iter().zip(answers) {
            // One that was dropped does not wait any more.
            let _ = told.send(answer);
        }
    }
}

impl<I, O> fmt::Debug for Gather<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather")
            .field("underway", &self.underway)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::{join_all, pending};

    /// Answers each item with itself and with how many were asked for together.
    fn echo() -> Arc<Gather<u32, (u32, usize)>> {
        Gather::new(|items| {
            let count = items.len();
            let answers = items.into_iter().map(|item| (item, count)).collect();
            async move { answers }.boxed()
        })
    }

    #[tokio::test]
    async fn those_who_ask_at_once_are_asked_for_together_and_answered_each() {
        let gather = echo();
        let answers = join_all((0..300).map(|item| gather.ask(item))).await;
        for (item, answer) in (0..).zip(answers) {
            let expected = if item < 256 { MOST } else { 300 - 2 * MOST };
            assert_eq!(answer, Some((item, expected)));
        }
    }

    #[tokio::test]
    async fn a_leader_who_is_dropped_leaves_nobody_waiting() {
        let gather = echo();
        let mut leader = Box::pin(gather.ask(1));
        assert!(leader.as_mut().now_or_never().is_none());
        let mut other = Box::pin(gather.ask(2));
        assert!(other.as_mut().now_or_never().is_none());
        drop(leader);
        assert_eq!(other.await, Some((2, 1)), "and is not asked for itself");
        assert_eq!(gather.ask(3).await, Some((3, 1)));
    }

    #[tokio::test]
    async fn what_ends_without_an_answer_is_told() {
        let gather: Arc<Gather<u32, u32>> = Gather::new(|_| async { Vec::new() }.boxed());
        assert_eq!(gather.ask(1).await, None);
        assert_eq!(gather.ask(2).await, None, "the next ones are asked for");
    }

    #[test]
    fn the_end_of_the_leaders_runtime_is_told_to_those_who_wait_elsewhere() {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().build().unwrap()
        };
        let gather: Arc<Gather<u32, u32>> = Gather::new(|_| pending().boxed());
        let (first, second) = (runtime(), runtime());
        let asking = Arc::clone(&gather);
        first.spawn(async move { asking.ask(1).await });
        first.block_on(tokio::task::yield_now());
        let mut other = Box::pin(gather.ask(2));
        assert!(
            second
                .block_on(async { other.as_mut().now_or_never() })
                .is_none()
        );
        drop(first);
        assert_eq!(second.block_on(other), None);
    }

    #[test]
    fn a_few_are_no_company() {
        let gather = echo();
        let few: Vec<_> = (0..COMPANY).map(|_| gather.enter()).collect();
        assert!(few.iter().all(|caller| !caller.is_in_company()));
        assert!(gather.enter().is_in_company());
        drop(few);
        assert!(!gather.enter().is_in_company());
    }
}
