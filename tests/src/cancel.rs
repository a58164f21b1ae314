//! Dropping a future after some polls.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// No operation is polled more often than this before it is dropped; one that needs more polls
/// waits for something other than its server.
pub const MOST_POLLS: usize = 400;

/// Polls the future at most `polls` times, letting the runtime work a little in between, then drops
/// it. Returns `None` if it had not finished by then.
pub async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let once = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(output) = once.await {
            return Some(output);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    None
}

/// Returns the numbers of polls to try: each of the first few, then ever sparser ones.
pub fn plan() -> impl Iterator<Item = usize> {
    let sparse = std::iter::successors(Some(12_usize), |polls| Some(polls + polls / 4));
    (0..12).chain(sparse.take_while(|polls| *polls < MOST_POLLS))
}
