//! Keys in a store: races, killed callers, and a store that is away.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use idem_client::{ErrorKind, Intent, IntentKeys, KeyForm, StoreKeys};
use idem_core::{
    ClaimOutcome, ClaimRequest, Fingerprint, IdempotencyStore, Key, MemoryStore, Response,
};
use idem_sqlite::{Config, SqliteStore};

fn intent() -> Intent {
    Intent::new("order-17/charge").unwrap()
}

fn record() -> Key {
    Key::new("bank", "idem-client.intent", "order-17/charge").unwrap()
}

fn fingerprint() -> Fingerprint {
    Fingerprint::raw("request")
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_race_on_two_connections_get_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("keys.db").display());
    let one = SqliteStore::connect(&url, Config::new()).await.unwrap();
    one.migrate().await.unwrap();
    let two = SqliteStore::connect(&url, Config::new()).await.unwrap();
    let all = [one, two].map(|store| StoreKeys::new(store, "bank").unwrap());
    for round in 0..10 {
        let intent = Intent::new(format!("order-{round}")).unwrap();
        let tasks = (0..16).map(|number| {
            let (keys, intent) = (all[number % 2].clone(), intent.clone());
            tokio::spawn(
                async move { keys.key_for(&intent, &fingerprint(), KeyForm::UuidV4).await },
            )
        });
        let (mut made, mut new) = (BTreeSet::new(), 0);
        for task in tasks.collect::<Vec<_>>() {
            let key = task.await.unwrap().unwrap();
            new += u32::from(key.is_new());
            made.insert(key.as_str().to_owned());
        }
        assert_eq!((made.len(), new), (1, 1), "round {round}");
    }
}

#[tokio::test]
async fn a_caller_that_was_killed_before_the_seal_is_taken_over() {
    let store: Arc<dyn IdempotencyStore> = Arc::new(MemoryStore::new());
    let lease = Duration::from_millis(200);
    let request = ClaimRequest::new(record(), fingerprint()).with_lease(lease);
    let ClaimOutcome::Acquired(dead) = store.claim(&request).await.unwrap() else {
        panic!("the key is free");
    };
    let keys = StoreKeys::new(store.clone(), "bank").unwrap();
    let key = keys
        .key_for(&intent(), &fingerprint(), KeyForm::UuidV4)
        .await
        .unwrap();
    assert!(key.is_new());
    // It comes back, and cannot replace the key that was sent.
    let late = Response::new(200, "\"late\"");
    assert!(
        store
            .complete(&dead, &late, Duration::from_secs(60))
            .await
            .is_err()
    );
    let again = keys
        .key_for(&intent(), &fingerprint(), KeyForm::UuidV4)
        .await
        .unwrap();
    assert_eq!(again.as_str(), key.as_str());
}

#[tokio::test]
async fn another_request_under_the_intent_is_a_conflict() {
    let keys = StoreKeys::new(MemoryStore::new(), "bank").unwrap();
    keys.key_for(&intent(), &fingerprint(), KeyForm::UuidV4)
        .await
        .unwrap();
    let other = Fingerprint::raw("another");
    let error = keys
        .key_for(&intent(), &other, KeyForm::UuidV4)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IntentChanged);
}

#[tokio::test]
async fn a_record_of_something_else_is_an_error() {
    let store: Arc<dyn IdempotencyStore> = Arc::new(MemoryStore::new());
    let request = ClaimRequest::new(record(), fingerprint());
    let ClaimOutcome::Acquired(claim) = store.claim(&request).await.unwrap() else {
        panic!("the key is free");
    };
    let foreign = Response::new(200, "\"no key\"");
    store
        .complete(&claim, &foreign, Duration::from_secs(60))
        .await
        .unwrap();
    let keys = StoreKeys::new(store, "bank").unwrap();
    let error = keys
        .key_for(&intent(), &fingerprint(), KeyForm::UuidV4)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_store_without_its_tables_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("keys.db").display());
    let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
    let keys = StoreKeys::new(store, "bank").unwrap();
    let error = keys
        .key_for(&intent(), &fingerprint(), KeyForm::UuidV4)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
}

#[test]
fn a_scope_has_the_limits_of_a_key() {
    let long = "x".repeat(256);
    for scope in ["", "a\nb", &long] {
        let error = StoreKeys::new(MemoryStore::new(), scope).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
    }
}
