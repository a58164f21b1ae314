//! Errors, callers that go, runtimes that end.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{Effect, ErrorKind, IdempotencyStore};

use super::support::{claims, granted, name, queue_up, request, settled, shared};

#[tokio::test]
async fn an_error_of_a_batch_reaches_only_the_caller_that_caused_it() {
    let (store, shared) = shared(|batched| batched);
    store.poison("c");
    let mut callers = queue_up(&store, &shared, &["a", "b", "c", "d"]).await;
    store.open();
    let poisoned = callers.remove(2).await.unwrap().unwrap_err();
    assert_eq!(poisoned.kind(), ErrorKind::Unavailable);
    assert_eq!(poisoned.effect(), Effect::Unknown, "of the batch");
    for caller in callers {
        granted(caller).await;
    }
}

#[tokio::test]
async fn an_item_that_was_sent_alone_is_not_sent_again_after_an_error() {
    let (store, shared) = shared(|batched| batched);
    store.poison("x");
    let mut callers = queue_up(&store, &shared, &["z", "x"]).await;
    store.open();
    let poisoned = callers.remove(1).await.unwrap().unwrap_err();
    assert_eq!(poisoned.effect(), Effect::None);
    assert_eq!(store.calls(), [["z"], ["x"]]);
}

#[tokio::test]
async fn a_locked_key_keeps_no_lane() {
    let (store, shared) = shared(|batched| batched);
    store.lock("b");
    let mut callers = queue_up(&store, &shared, &["z", "a", "b"]).await;
    store.let_through(2);
    let locked = callers.pop().unwrap();
    for caller in callers {
        granted(caller).await;
    }
    settled().await;
    assert_eq!(store.calls(), [vec!["z"], vec!["a", "b"], vec!["b"]]);
    let other = claims(&shared, request("c"));
    settled().await;
    assert_eq!(store.calls()[3], ["c"], "the lane waits for no caller");
    // The lane is busy now; the locked key needs none.
    let again = claims(&shared, request("b"));
    settled().await;
    assert_eq!(store.calls()[4], ["b"]);
    store.open();
    granted(other).await;
    for locked in [locked, again] {
        let error = locked.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention);
        assert_eq!(error.effect(), Effect::None);
    }
}

#[tokio::test]
async fn callers_of_the_same_key_are_sent_alone_after_an_error() {
    let (store, shared) = shared(|batched| batched);
    store.poison("x");
    let mut callers = queue_up(&store, &shared, &["z", "a", "a", "a", "x"]).await;
    store.open();
    callers.remove(0);
    let poisoned = callers.pop().unwrap().await.unwrap();
    assert!(poisoned.is_err());
    let mut names = Vec::new();
    for caller in callers {
        names.push(name(caller).await);
    }
    names.sort_unstable();
    assert_eq!(names, ["acquired", "in_flight", "in_flight"]);
}

#[tokio::test]
async fn a_bad_item_is_refused_and_its_neighbours_are_not_sent_twice() {
    let (store, shared) = shared(|batched| batched);
    let mut callers = queue_up(&store, &shared, &["z", "a"]).await;
    callers.push(claims(&shared, request("b").with_lease(Duration::MAX)));
    settled().await;
    store.open();
    let bad = callers.pop().unwrap().await.unwrap().unwrap_err();
    assert_eq!(bad.kind(), ErrorKind::InvalidInput);
    for caller in callers {
        granted(caller).await;
    }
    assert_eq!(store.calls(), [vec!["z"], vec!["a", "b"]]);
}

#[tokio::test]
async fn a_store_that_answers_too_few_has_answered_the_others() {
    let (store, shared) = shared(|batched| batched);
    store.answer_short();
    let callers = queue_up(&store, &shared, &["z", "a", "b"]).await;
    store.open();
    for caller in callers {
        granted(caller).await;
    }
    // The last one's claim took effect, and the same attempt has it.
    assert_eq!(store.calls(), [vec!["z"], vec!["a", "b"], vec!["b"]]);
}

#[tokio::test]
async fn the_item_of_a_dropped_caller_is_not_sent() {
    let (store, shared) = shared(|batched| batched);
    let mut callers = queue_up(&store, &shared, &["a", "b", "c", "d"]).await;
    callers.remove(2).abort();
    settled().await;
    store.open();
    for caller in callers {
        granted(caller).await;
    }
    assert_eq!(store.calls(), [vec!["a"], vec!["b", "d"]]);
}

#[tokio::test]
async fn a_caller_dropped_while_its_batch_is_under_way_leaves_it_to_the_others() {
    let (store, shared) = shared(|batched| batched);
    let mut callers = queue_up(&store, &shared, &["a", "b", "c", "d"]).await;
    store.let_through(1);
    store.until_calls(2).await;
    callers.remove(2).abort();
    settled().await;
    store.open();
    for caller in callers {
        granted(caller).await;
    }
    // The sent claim has taken effect.
    assert_eq!(
        shared.claim(&request("c")).await.unwrap().name(),
        "in_flight"
    );
}

#[tokio::test]
async fn a_caller_dropped_while_it_sends_leaves_the_lane_to_the_next() {
    let (store, shared) = shared(|batched| batched);
    let mut callers = queue_up(&store, &shared, &["a", "b", "c"]).await;
    callers.remove(0).abort();
    // A batch takes the lane, with all who wait.
    store.until_calls(2).await;
    assert_eq!(store.calls(), [vec!["a"], vec!["b", "c"]]);
    callers.remove(0).abort();
    store.open();
    for caller in callers {
        granted(caller).await;
    }
    granted(claims(&shared, request("d"))).await;
}

#[tokio::test]
async fn callers_that_are_all_dropped_leave_nothing_behind() {
    let (store, shared) = shared(|batched| batched);
    for caller in queue_up(&store, &shared, &["a", "b", "c"]).await {
        caller.abort();
    }
    settled().await;
    store.open();
    granted(claims(&shared, request("d"))).await;
    assert_eq!(shared.get(request("c").key()).await.unwrap(), None);
}

#[tokio::test]
async fn thousands_dropped_before_the_sending_caller_leave_nothing_behind() {
    let (store, shared) = shared(|batched| batched);
    let first = queue_up(&store, &shared, &["a"]).await.remove(0);
    let others: Vec<_> = (0..9_000)
        .map(|n| claims(&shared, request(&n.to_string())))
        .collect();
    settled().await;
    for caller in others {
        caller.abort();
    }
    settled().await;
    first.abort();
    settled().await;
    store.open();
    granted(claims(&shared, request("d"))).await;
    assert_eq!(store.calls(), [["a"], ["d"]]);
}

#[tokio::test]
async fn a_batch_that_panics_is_an_error_and_the_lane_goes_on() {
    let (store, shared) = shared(|batched| batched);
    store.panic_once();
    let mut callers = queue_up(&store, &shared, &["z", "a", "b"]).await;
    store.open();
    granted(callers.remove(0)).await;
    for caller in callers {
        let error = caller.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.effect(), Effect::Unknown);
    }
    granted(claims(&shared, request("c"))).await;
}

#[test]
fn callers_of_another_runtime_go_on_when_one_ends() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    };
    let (one, other) = (runtime(), runtime());
    let (store, shared) = shared(|batched| batched);
    let callers = one.block_on(queue_up(&store, &shared, &["a", "b", "c"]));
    store.let_through(1);
    // The batch of b and c runs on the first runtime now.
    one.block_on(store.until_calls(2));
    let left = other.spawn({
        let shared = Arc::clone(&shared);
        async move { shared.claim(&request("d")).await }
    });
    one.block_on(settled());
    drop(callers);
    one.shutdown_background();
    store.open();
    let answer =
        other.block_on(async { tokio::time::timeout(Duration::from_secs(60), left).await });
    assert_eq!(answer.unwrap().unwrap().unwrap().name(), "acquired");
}

#[tokio::test]
async fn a_caller_whose_time_is_up_in_the_queue_is_never_sent() {
    let (store, shared) = shared(|batched| batched.with_timeout(Duration::from_millis(20)));
    let mut callers = queue_up(&store, &shared, &["a", "b"]).await;
    let late = callers.remove(1).await.unwrap().unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable);
    assert_eq!(late.effect(), Effect::None);
    store.open();
    for caller in callers {
        granted(caller).await;
    }
    settled().await;
    assert_eq!(store.calls(), [["a"]]);
}

#[tokio::test]
async fn a_caller_whose_time_is_up_in_a_batch_gets_an_unknown_effect() {
    let (store, shared) = shared(|batched| batched.with_timeout(Duration::from_millis(50)));
    let mut callers = queue_up(&store, &shared, &["a", "b", "c"]).await;
    store.let_through(1);
    granted(callers.remove(0)).await;
    store.until_calls(2).await;
    for caller in callers {
        let late = caller.await.unwrap().unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Unavailable);
        assert_eq!(late.effect(), Effect::Unknown);
    }
    store.open();
    settled().await;
    assert_eq!(store.calls(), [vec!["a"], vec!["b", "c"]]);
}
