//! The limits of tries, time and budget.

use std::time::{Duration, Instant};

use idem_client::{
    Error, ErrorKind, GaveUp, Intent, IntentKeys, IssuedKey, KeyForm, Protocol, RetryBudget,
    RetryPolicy,
};
use idem_core::Fingerprint;

use crate::support::{
    Act, Server, answer, client, delivery, error, memory, ok, post, quick, settings,
};

fn unavailable() -> impl Iterator<Item = Act> {
    std::iter::repeat_with(|| answer(503, "", "{}")).take(1000)
}

#[tokio::test]
async fn a_call_has_a_number_of_tries() {
    for most in [1, 4] {
        let server = Server::start(unavailable()).await;
        let retry = quick().with_max_tries(most);
        let client = client(settings(memory(), Protocol::ietf()).with_retry(retry));
        let response = post(&client, &server.url(), "a").send().await.unwrap();
        let delivery = delivery(&response);
        assert_eq!(
            (delivery.tries, delivery.gave_up),
            (most, Some(GaveUp::Tries))
        );
        assert_eq!(server.seen().len(), most as usize);
    }
    assert_eq!(
        RetryPolicy::once(),
        RetryPolicy::default().with_max_tries(0)
    );
}

#[tokio::test]
async fn a_call_ends_by_its_deadline() {
    let server = Server::start(unavailable()).await;
    let retry = RetryPolicy::default()
        .with_max_tries(u32::MAX)
        .with_deadline(Duration::from_millis(400));
    let client = client(settings(memory(), Protocol::ietf()).with_retry(retry));
    let begun = Instant::now();
    let response = post(&client, &server.url(), "a").send().await.unwrap();
    assert_eq!(delivery(&response).gave_up, Some(GaveUp::Deadline));
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

/// Keys that nobody can reach.
#[derive(Debug)]
struct Unreachable;

#[async_trait::async_trait]
impl IntentKeys for Unreachable {
    async fn key_for(&self, _: &Intent, _: &Fingerprint, _: KeyForm) -> Result<IssuedKey, Error> {
        std::future::pending().await
    }

    fn retention(&self) -> Duration {
        Duration::MAX
    }
}

#[tokio::test]
async fn keys_that_are_not_kept_by_the_deadline_stop_the_call() {
    let server = Server::start([]).await;
    let retry = quick().with_deadline(Duration::from_millis(100));
    let client = client(settings(Unreachable, Protocol::ietf()).with_retry(retry));
    let result = post(&client, &server.url(), "a").send().await;
    let error = error(&result);
    assert_eq!(error.kind(), ErrorKind::KeysUnavailable);
    assert!(error.is_retryable());
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn clients_share_a_budget_and_the_first_try_is_free() {
    let server = Server::start(unavailable()).await;
    let budget = RetryBudget::new(3, 0.0, 0.0);
    let settings = settings(memory(), Protocol::ietf()).with_budget(budget);
    let (one, two) = (client(settings.clone()), client(settings));
    let mut tries = Vec::new();
    for (client, intent) in [(&one, "a"), (&two, "b")] {
        let response = post(client, &server.url(), intent).send().await.unwrap();
        assert_eq!(delivery(&response).gave_up, Some(GaveUp::Budget));
        tries.push(delivery(&response).tries);
    }
    assert_eq!(tries, [4, 1]);
}

#[tokio::test]
async fn a_call_without_faults_takes_nothing_from_the_budget() {
    let server = Server::start([ok(), ok()]).await;
    let budget = RetryBudget::new(0, 0.0, 0.0);
    let client = client(settings(memory(), Protocol::ietf()).with_budget(budget));
    for intent in ["a", "b"] {
        let response = post(&client, &server.url(), intent).send().await.unwrap();
        assert_eq!(delivery(&response).gave_up, None);
    }
}

#[tokio::test]
async fn no_retry_begins_when_the_server_may_have_forgotten_the_key() {
    let server = Server::start([answer(503, "retry-after: 30\r\n", "{}")]).await;
    let protocol = Protocol::ietf().with_lifetime(Duration::from_secs(40));
    let client = client(settings(memory(), protocol));
    let response = post(&client, &server.url(), "a").send().await.unwrap();
    // 30 s of pause and 15 s for the try are more than 40 s.
    assert_eq!(delivery(&response).gave_up, Some(GaveUp::Expired));
}
