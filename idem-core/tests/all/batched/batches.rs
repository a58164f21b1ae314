//! Which items share a batch.

use std::sync::Arc;

use idem_core::{BatchStore, ErrorKind, Failure, IdempotencyStore, Response};
use tokio::task::JoinSet;

use super::support::{MINUTES, acquired, claims, granted, queue_up, request, settled, shared};

#[tokio::test]
async fn a_lone_caller_calls_the_store_by_itself() {
    let (store, shared) = shared(|batched| batched);
    store.open();
    for id in ["a", "b", "c"] {
        let claim = shared.claim(&request(id)).await.unwrap();
        let claim = claim.acquired().unwrap();
        let response = Response::new(200, "done");
        shared.complete(&claim, &response, MINUTES).await.unwrap();
    }
    assert_eq!(store.calls(), [["a"], ["a"], ["b"], ["b"], ["c"], ["c"]]);
}

#[tokio::test]
async fn callers_that_arrive_during_a_call_share_the_next_one_in_the_order_of_the_keys() {
    let (store, shared) = shared(|batched| batched);
    let callers = queue_up(&store, &shared, &["m", "z", "a", "k"]).await;
    assert_eq!(store.calls(), [["m"]], "no other item is sent meanwhile");
    store.open();
    for (caller, id) in callers.into_iter().zip(["m", "z", "a", "k"]) {
        assert_eq!(acquired(caller).await.key().id(), id);
    }
    assert_eq!(store.calls()[1..], [["a", "k", "z"]]);
}

#[tokio::test]
async fn completions_go_together_too() {
    let (store, shared) = shared(|batched| batched);
    store.let_through(4);
    let mut claims = Vec::new();
    for id in ["d", "c", "b", "a"] {
        let claim = shared.claim(&request(id)).await.unwrap();
        claims.push(claim.acquired().unwrap());
    }
    let mut done = JoinSet::new();
    for claim in claims.clone() {
        let shared = Arc::clone(&shared);
        done.spawn(async move {
            let response = Response::new(200, claim.key().id().to_owned());
            shared.complete(&claim, &response, MINUTES).await
        });
        settled().await;
    }
    store.open();
    assert!(done.join_all().await.into_iter().all(|done| done.is_ok()));
    assert_eq!(store.calls()[4..], [vec!["d"], vec!["a", "b", "c"]]);
    for claim in claims {
        let record = shared.get(claim.key()).await.unwrap().unwrap();
        let body = record.response().unwrap().body().clone();
        assert_eq!(body, claim.key().id());
    }
}

#[tokio::test]
async fn completions_failures_and_releases_go_together() {
    let (store, shared) = shared(|batched| batched);
    store.let_through(4);
    let mut claims = Vec::new();
    for id in ["d", "c", "b", "a"] {
        let claim = shared.claim(&request(id)).await.unwrap();
        claims.push(claim.acquired().unwrap());
    }
    let mut ended = JoinSet::new();
    for claim in claims.clone() {
        let shared = Arc::clone(&shared);
        ended.spawn(async move {
            match claim.key().id() {
                "a" => shared.release(&claim).await,
                "b" => {
                    let failure = Failure::new("declined", "no");
                    shared.fail(&claim, &failure, MINUTES).await
                }
                _ => {
                    let response = Response::new(200, "done");
                    shared.complete(&claim, &response, MINUTES).await
                }
            }
        });
        settled().await;
    }
    store.open();
    assert!(ended.join_all().await.into_iter().all(|end| end.is_ok()));
    assert_eq!(store.calls()[4..], [vec!["d"], vec!["a", "b", "c"]]);
    for (claim, expected) in claims
        .iter()
        .zip(["completed", "completed", "failed", "acquired"])
    {
        let outcome = shared.claim(&request(claim.key().id())).await.unwrap();
        assert_eq!(outcome.name(), expected, "{:?}", claim.key());
    }
}

#[tokio::test]
async fn a_batch_has_no_more_than_its_items() {
    let (store, shared) = shared(|batched| batched.with_max_batch(2));
    let callers = queue_up(&store, &shared, &["a", "b", "c", "d", "e", "f"]).await;
    store.open();
    for caller in callers {
        granted(caller).await;
    }
    let calls = store.calls();
    assert_eq!(calls[1..], [vec!["b", "c"], vec!["d", "e"], vec!["f"]]);
}

#[tokio::test]
async fn large_responses_are_not_all_in_one_batch() {
    let (store, shared) = shared(|batched| batched);
    store.let_through(5);
    let mut done = JoinSet::new();
    let mut claimed = Vec::new();
    for id in ["a", "b", "c", "d", "e"] {
        let claim = shared.claim(&request(id)).await.unwrap();
        claimed.push(claim.acquired().unwrap());
    }
    for claim in claimed {
        let shared = Arc::clone(&shared);
        done.spawn(async move {
            let response = Response::new(200, vec![7; 500_000]);
            shared.complete(&claim, &response, MINUTES).await
        });
        settled().await;
    }
    store.open();
    assert!(done.join_all().await.into_iter().all(|done| done.is_ok()));
    let calls = store.calls();
    assert_eq!(calls[5..], [vec!["a"], vec!["b", "c"], vec!["d", "e"]]);
}

#[tokio::test]
async fn a_caller_that_finds_the_queue_full_gets_the_error_at_once() {
    let (store, shared) = shared(|batched| batched.with_max_waiting(2));
    let callers = queue_up(&store, &shared, &["a", "b", "c"]).await;
    let error = shared.claim(&request("d")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(
        error.to_string(),
        "gated claim: 2 callers wait for the store already; ask again later"
    );
    store.open();
    for caller in callers {
        granted(caller).await;
    }
    assert_eq!(
        shared.claim(&request("d")).await.unwrap().name(),
        "acquired"
    );
}

#[tokio::test]
async fn batches_of_the_caller_go_through() {
    let (store, shared) = shared(|batched| batched);
    store.open();
    let answers = shared.claim_many(&[request("b"), request("a")]).await;
    assert!(answers.into_iter().all(|answer| answer.is_ok()));
    assert_eq!(store.calls(), [["b", "a"]]);
}

#[tokio::test]
async fn a_queue_that_has_run_empty_serves_the_next_caller() {
    let (store, shared) = shared(|batched| batched);
    store.open();
    for round in 0..50 {
        let callers: Vec<_> = (0..round % 7)
            .map(|n| claims(&shared, request(&format!("{round}-{n}"))))
            .collect();
        for caller in callers {
            granted(caller).await;
        }
    }
}
