//! Intents that are older than the server's memory.

use std::path::Path;
use std::time::{Duration, SystemTime};

use idem_client::{ErrorKind, FileKeys, Protocol, StoreKeys};
use idem_core::{Effect, MemoryStore};

use crate::support::{Server, client, delivery, error, memory, post, quick, settings};

/// Writes a file as if its keys had been made by a clock that is ahead or behind.
fn moved(path: &Path, by: impl Fn(u64) -> u64) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut moved = String::new();
    for line in text.lines() {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["first_sent"] = by(line["first_sent"].as_u64().unwrap()).into();
        moved.push_str(&format!("{line}\n"));
    }
    std::fs::write(path, moved).unwrap();
}

const HOUR: u64 = 60 * 60 * 1000;

#[tokio::test]
async fn an_intent_that_the_server_may_have_forgotten_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let server = Server::start([]).await;
    let send = async |protocol: Protocol| {
        let keys = FileKeys::open(&path).await.unwrap();
        let client = client(settings(keys, protocol));
        post(&client, &server.url(), "a").send().await
    };
    let first = delivery(&send(Protocol::ietf()).await.unwrap()).key;
    moved(&path, |instant| instant - 23 * HOUR);
    let repeat = delivery(&send(Protocol::ietf()).await.unwrap()).key;
    assert_eq!(repeat.as_str(), first.as_str());
    assert!(repeat.age() >= Some(Duration::from_secs(23 * 3600)));
    moved(&path, |instant| instant - HOUR);
    let result = send(Protocol::ietf()).await;
    let error = error(&result);
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::IntentExpired, Effect::Unknown)
    );
    assert!(!error.is_retryable());
    assert_eq!(server.seen().len(), 2, "nothing was sent");
    // A server that keeps answers for longer, or for ever.
    let longer = Protocol::ietf().with_lifetime(Duration::from_secs(7 * 24 * 3600));
    for protocol in [longer, Protocol::ietf().with_endless_lifetime()] {
        assert_eq!(
            delivery(&send(protocol).await.unwrap()).key.as_str(),
            first.as_str()
        );
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_makes_old_intents_expire_and_new_ones_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let server = Server::start([]).await;
    let send = async |intent: &str| {
        let keys = FileKeys::open(&path).await.unwrap();
        let client = client(settings(keys, Protocol::ietf()));
        post(&client, &server.url(), intent).send().await
    };
    send("a").await.unwrap();
    moved(&path, |instant| instant + HOUR);
    let result = send("a").await;
    let error = error(&result);
    assert_eq!(error.kind(), ErrorKind::IntentExpired);
    assert!(error.to_string().contains("set back"), "{error}");
    send("b").await.unwrap();
    moved(&path, |instant| instant - HOUR);
    send("a").await.unwrap();
}

#[tokio::test]
async fn the_store_s_clock_says_how_old_an_intent_is() {
    let server = Server::start([]).await;
    let lifetime = Duration::from_millis(400);
    let protocol = Protocol::ietf().with_lifetime(lifetime);
    let retry = quick().with_try_timeout(Duration::from_millis(100));
    let client = client(settings(memory(), protocol).with_retry(retry));
    let begun = SystemTime::now();
    post(&client, &server.url(), "a").send().await.unwrap();
    let send_until_expired = async {
        loop {
            let result = post(&client, &server.url(), "a").send().await;
            if result.is_err() {
                break result;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let expired = tokio::time::timeout(Duration::from_secs(30), send_until_expired).await;
    let expired = expired.expect("the intent expires");
    assert_eq!(error(&expired).kind(), ErrorKind::IntentExpired);
    // Before the end, by the margin for one try.
    assert!(begun.elapsed().unwrap() >= lifetime - Duration::from_millis(100));
}

#[tokio::test]
async fn keys_that_are_forgotten_before_the_answers_are_refused() {
    let server = Server::start([]).await;
    let keys = StoreKeys::new(MemoryStore::new(), "bank").unwrap();
    let keys = keys.with_retention(Duration::from_secs(3600));
    let client = client(settings(keys, Protocol::ietf()));
    let result = post(&client, &server.url(), "a").send().await;
    assert_eq!(error(&result).kind(), ErrorKind::Misconfigured);
    assert!(server.seen().is_empty());
}
