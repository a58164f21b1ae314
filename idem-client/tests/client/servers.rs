//! Real servers: axum behind `idem-http`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::post as route;
use idem_client::{Answer, Protocol, StoreKeys};
use idem_core::{Idempotency, IdempotencyStore, MemoryStore, Policy};
use idem_http::{HttpPolicy, IdempotencyLayer};
use idem_sqlite::{Config, SqliteStore};
use rand::RngExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::support::{client, delivery, is, memory, post, quick, seeded, settings, until};

/// A server that counts its effects.
struct Bank {
    url: String,
    effects: Arc<AtomicU32>,
    /// Lets the handlers go on.
    go: Arc<Notify>,
}

impl Bank {
    /// Each charge waits for `go` if `is_slow`; the first `failing` ones fail with `500`.
    async fn start(store: impl IdempotencyStore, is_slow: bool, failing: u32) -> Self {
        let (effects, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let policy = Policy::default().with_lease(Duration::from_secs(1));
        let idem = Idempotency::new(store).with_policy(policy);
        let layer = IdempotencyLayer::new(idem, |_: &Parts| Some("shop".to_owned()))
            .with_policy(HttpPolicy::ietf());
        let (count, gate) = (Arc::clone(&effects), Arc::clone(&go));
        let charge = async move |body: String| {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            if is_slow {
                gate.notified().await;
            }
            match number <= failing {
                true => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
                false => (StatusCode::CREATED, format!("charge {number}: {body}")),
            }
        };
        let router = Router::new().route("/charges", route(charge).layer(layer));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/charges", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, router).into_future());
        Self { url, effects, go }
    }

    fn effects(&self) -> u32 {
        self.effects.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn the_first_answer_and_its_replays_are_told_apart() {
    let bank = Bank::start(MemoryStore::new(), false, 0).await;
    let client = client(settings(memory(), Protocol::idem_http()));
    let mut texts = Vec::new();
    for expected in [Answer::First, Answer::Replayed, Answer::Replayed] {
        let response = post(&client, &bank.url, "a").send().await.unwrap();
        is(&response, 201, 1, expected);
        texts.push(response.text().await.unwrap());
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert_eq!(bank.effects(), 1);
}

#[tokio::test]
async fn a_handler_that_failed_runs_again_under_the_same_key() {
    let bank = Bank::start(MemoryStore::new(), false, 2).await;
    let client = client(settings(memory(), Protocol::idem_http()));
    let response = post(&client, &bank.url, "a").send().await.unwrap();
    is(&response, 201, 3, Answer::First);
}

#[tokio::test]
async fn a_client_that_left_and_its_successor_have_one_effect() {
    let bank = Bank::start(MemoryStore::new(), true, 0).await;
    let client = client(settings(memory(), Protocol::idem_http()));
    let first = tokio::spawn(post(&client, &bank.url, "a").send());
    until(|| bank.effects() == 1).await;
    first.abort();
    // The successor meets the request in flight, and waits as `Retry-After` says.
    let second = tokio::spawn(post(&client, &bank.url, "a").send());
    bank.go.notify_one();
    let response = second.await.unwrap().unwrap();
    assert_eq!(delivery(&response).answer, Answer::Replayed);
    assert_eq!(bank.effects(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_dropped_at_any_point_and_repeated_has_one_effect() {
    let mut random = seeded();
    let bank = Bank::start(MemoryStore::new(), false, 0).await;
    let client = client(settings(memory(), Protocol::idem_http()));
    for order in 1..=40 {
        let intent = format!("order-{order}");
        for _ in 0..3 {
            let call = tokio::spawn(post(&client, &bank.url, &intent).send());
            tokio::time::sleep(Duration::from_micros(random.random_range(0..1500))).await;
            call.abort();
        }
        let response = post(&client, &bank.url, &intent).send().await.unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(bank.effects(), order);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_of_two_processes_with_one_intent_have_one_effect() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("all.db").display());
    let open = async || {
        let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
        store.migrate().await.unwrap();
        store
    };
    let bank = Bank::start(open().await, false, 0).await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let keys = StoreKeys::new(open().await, "bank").unwrap();
        let retry = quick().with_max_tries(100);
        clients.push(client(
            settings(keys, Protocol::idem_http()).with_retry(retry),
        ));
    }
    let calls =
        (0..16).map(|number| tokio::spawn(post(&clients[number % 2], &bank.url, "a").send()));
    let (mut firsts, mut texts) = (0, Vec::new());
    for call in calls.collect::<Vec<_>>() {
        let response = call.await.unwrap().unwrap();
        firsts += u32::from(delivery(&response).answer == Answer::First);
        texts.push(response.text().await.unwrap());
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert_eq!((bank.effects(), firsts), (1, 1));
}

#[tokio::test]
async fn a_key_that_someone_else_used_is_the_caller_s_problem() {
    let bank = Bank::start(MemoryStore::new(), false, 0).await;
    let client = client(settings(memory(), Protocol::idem_http()));
    let key = delivery(&post(&client, &bank.url, "a").send().await.unwrap()).key;
    // Another program of the same account sends another body under this key.
    let other = reqwest::Client::new()
        .post(&bank.url)
        .header("idempotency-key", format!("\"{}\"", key.as_str()))
        .body("other");
    assert_eq!(other.send().await.unwrap().status(), 422);
}
