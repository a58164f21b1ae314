//! One key, many callers.

use idem_core::{ClaimOutcome, IdempotencyStore, Response};

use crate::support::{
    MINUTES, acquired, claims, fingerprinted, granted, name, queue_up, request, settled, shared,
};

#[tokio::test]
async fn sixty_four_callers_with_one_key_are_two_calls() {
    let (store, shared) = shared(|batched| batched);
    let mut asked = queue_up(&store, &shared, &["a"; 64]).await;
    store.open();
    granted(asked.remove(0)).await;
    for asked in asked {
        assert_eq!(name(asked).await, "in_flight");
    }
    assert_eq!(store.calls(), [["a"], ["a"]]);
}

#[tokio::test]
async fn what_was_granted_was_granted_to_one_of_a_batch() {
    let (store, shared) = shared(|batched| batched);
    let mut asked = queue_up(&store, &shared, &["z", "a", "b", "a", "a"]).await;
    asked.remove(0);
    store.open();
    let mut outcomes = Vec::new();
    for asked in asked {
        outcomes.push(asked.await.unwrap().unwrap());
    }
    let granted = |outcome: &&ClaimOutcome| outcome.name() == "acquired";
    assert_eq!(outcomes.iter().filter(granted).count(), 2, "one a, one b");
    assert_eq!(
        outcomes[0].name(),
        "acquired",
        "who came first is asked for"
    );
    assert_eq!(store.calls()[1..], [vec!["a", "b"], vec!["a"]]);
}

#[tokio::test]
async fn another_request_with_the_key_is_not_told_what_the_first_is_told() {
    let (store, shared) = shared(|batched| batched);
    let mut asked = queue_up(&store, &shared, &["a", "a"]).await;
    asked.push(claims(&shared, fingerprinted("a", "two")));
    asked.push(claims(&shared, request("a")));
    settled().await;
    store.open();
    let mut names = Vec::new();
    for asked in asked {
        names.push(name(asked).await);
    }
    assert_eq!(names, ["acquired", "in_flight", "conflict", "in_flight"]);
    assert_eq!(store.calls(), [["a"], ["a"], ["a"]]);
}

#[tokio::test]
async fn a_lost_answer_is_recovered_although_others_ask_for_the_same() {
    let (store, shared) = shared(|batched| batched);
    store.let_through(1);
    let lost = request("a");
    let first = shared.claim(&lost).await.unwrap().acquired().unwrap();
    // The same attempt in the middle of others.
    let mut asked = queue_up(&store, &shared, &["z", "a"]).await;
    let again = claims(&shared, lost);
    settled().await;
    asked.push(claims(&shared, request("a")));
    settled().await;
    store.open();
    assert_eq!(acquired(again).await.token(), first.token());
    asked.remove(0);
    for asked in asked {
        assert_eq!(name(asked).await, "in_flight");
    }
}

#[tokio::test]
async fn a_replay_is_read_once_for_all() {
    let (store, shared) = shared(|batched| batched);
    store.let_through(2);
    let claim = shared.claim(&request("a")).await.unwrap();
    let claim = claim.acquired().unwrap();
    let response = Response::new(201, "made");
    shared.complete(&claim, &response, MINUTES).await.unwrap();
    let asked = queue_up(&store, &shared, &["a"; 10]).await;
    store.open();
    for asked in asked {
        match asked.await.unwrap().unwrap() {
            ClaimOutcome::Completed(completed) => assert_eq!(completed.response, response),
            other => panic!("{}", other.name()),
        }
    }
    assert_eq!(store.calls().len(), 4);
}

#[tokio::test]
async fn the_same_completion_twice_succeeds_twice() {
    let (store, shared) = shared(|batched| batched);
    store.let_through(1);
    let claim = shared.claim(&request("a")).await.unwrap();
    let claim = claim.acquired().unwrap();
    let complete = |body: &'static str| {
        let (shared, claim) = (shared.clone(), claim.clone());
        tokio::spawn(async move {
            let response = Response::new(200, body);
            shared.complete(&claim, &response, MINUTES).await
        })
    };
    let asked = [complete("x"), complete("x"), complete("y"), complete("x")];
    settled().await;
    store.open();
    let mut succeeded = Vec::new();
    for asked in asked {
        succeeded.push(asked.await.unwrap().is_ok());
    }
    assert_eq!(succeeded, [true, true, false, true]);
}
