//! Several calls at once, and many callers that come and go.

use std::sync::Arc;
use std::time::Duration;

use idem_core::IdempotencyStore;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::support::{granted, queue_up, request, settled, shared};

#[tokio::test]
async fn a_stuck_lane_does_not_stop_the_others() {
    let (store, shared) = shared(|batched| batched.with_lanes(3));
    let callers = queue_up(&store, &shared, &["a", "b", "c", "d", "e"]).await;
    settled().await;
    assert_eq!(store.calls(), [["a"], ["b"], ["c"]]);
    store.let_through(1);
    store.until_calls(4).await;
    assert_eq!(
        store.calls()[3],
        ["d", "e"],
        "two calls are under way still"
    );
    store.open();
    for caller in callers {
        granted(caller).await;
    }
}

/// Callers that arrive at any time, claim few keys, and go at any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_callers_that_come_and_go_one_holds_each_key_and_none_waits_for_ever() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (store, shared) = shared(|batched| batched.with_lanes(2).with_max_batch(7));
    store.open();
    let mut callers = JoinSet::new();
    for _ in 0..4_000 {
        let shared = Arc::clone(&shared);
        let request = request(&random.random_range(0..200).to_string());
        let polls = random.random_bool(0.3).then(|| random.random_range(0..4));
        callers.spawn(async move {
            let claim = shared.claim(&request);
            let outcome = match polls {
                Some(polls) => dropped_after(claim, polls).await?,
                None => claim.await,
            };
            Some((
                request.key().id().to_owned(),
                outcome.unwrap().name() == "acquired",
            ))
        });
    }
    let all = callers.join_all();
    let all = tokio::time::timeout(Duration::from_secs(120), all).await;
    let mut held = std::collections::HashSet::new();
    for (id, is_acquired) in all.expect("no caller waits for ever").into_iter().flatten() {
        assert!(!is_acquired || held.insert(id), "two hold one key");
    }
    // The last lane is given back a little after the last answer.
    let idle = async {
        while !format!("{shared:?}").contains("waiting: 0, busy: 0") {
            tokio::task::yield_now().await;
        }
    };
    let idle = tokio::time::timeout(Duration::from_secs(60), idle).await;
    assert!(idle.is_ok(), "{shared:?}");
    let batches = store.calls().iter().filter(|call| call.len() > 1).count();
    assert!(batches > 0, "no callers have shared a call");
}

/// Returns the outcome, or `None` if it takes more polls.
async fn dropped_after<T>(work: impl Future<Output = T>, polls: u32) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let mut left = polls;
    std::future::poll_fn(move |context| match work.as_mut().poll(context) {
        std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
        std::task::Poll::Pending if left == 0 => std::task::Poll::Ready(None),
        std::task::Poll::Pending => {
            left -= 1;
            std::task::Poll::Pending
        }
    })
    .await
}
