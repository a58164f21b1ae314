//! One key, many callers.

use idem_core::{ClaimOutcome, IdempotencyStore, Response};

use super::support::{
    MINUTES, acquired, claims, fingerprinted, granted, name, queue_up, request, settled, shared,
};

#[tokio::test]
async fn sixty_four_callers_with_one_key_are_two_calls() {
    let (store, shared) = shared(|batched| batched);
    let mut callers = queue_up(&store, &shared, &["a"; 64]).await;
    store.open();
    granted(callers.remove(0)).await;
    for caller in callers {
        assert_eq!(name(caller).await, "in_flight");
    }
    assert_eq!(store.calls(), [["a"], ["a"]]);
}

#[tokio::test]
async fn one_caller_of_a_batch_wins_the_key() {
    let (store, shared) = shared(|batched| batched);
    let mut callers = queue_up(&store, &shared, &["z", "a", "b", "a", "a"]).await;
    callers.remove(0);
    store.open();
    let mut outcomes = Vec::new();
    for caller in callers {
        outcomes.push(caller.await.unwrap().unwrap());
    }
    let granted = |outcome: &&ClaimOutcome| outcome.name() == "acquired";
    assert_eq!(outcomes.iter().filter(granted).count(), 2, "one a, one b");
    assert_eq!(
        outcomes[0].name(),
        "acquired",
        "the first caller of the key"
    );
    assert_eq!(store.calls()[1..], [vec!["a", "b"], vec!["a"]]);
}

#[tokio::test]
async fn another_request_with_the_key_does_not_get_the_outcome_of_the_first() {
    let (store, shared) = shared(|batched| batched);
    let mut callers = queue_up(&store, &shared, &["a", "a"]).await;
    callers.push(claims(&shared, fingerprinted("a", "two")));
    callers.push(claims(&shared, request("a")));
    settled().await;
    store.open();
    let mut names = Vec::new();
    for caller in callers {
        names.push(name(caller).await);
    }
    assert_eq!(names, ["acquired", "in_flight", "conflict", "in_flight"]);
    assert_eq!(store.calls(), [["a"], ["a"], ["a"]]);
}

#[tokio::test]
async fn a_lost_answer_is_recovered_although_others_claim_the_same_key() {
    let (store, shared) = shared(|batched| batched);
    store.let_through(1);
    let lost = request("a");
    let first = shared.claim(&lost).await.unwrap().acquired().unwrap();
    // The same attempt in the middle of others.
    let mut callers = queue_up(&store, &shared, &["z", "a"]).await;
    let again = claims(&shared, lost);
    settled().await;
    callers.push(claims(&shared, request("a")));
    settled().await;
    store.open();
    assert_eq!(acquired(again).await.token(), first.token());
    callers.remove(0);
    for caller in callers {
        assert_eq!(name(caller).await, "in_flight");
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
    let callers = queue_up(&store, &shared, &["a"; 10]).await;
    store.open();
    for caller in callers {
        match caller.await.unwrap().unwrap() {
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
    let callers = [complete("x"), complete("x"), complete("y"), complete("x")];
    settled().await;
    store.open();
    let mut succeeded = Vec::new();
    for caller in callers {
        succeeded.push(caller.await.unwrap().is_ok());
    }
    assert_eq!(succeeded, [true, true, false, true]);
}
