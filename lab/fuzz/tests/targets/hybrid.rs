//! Entries of a cache that changes them: garbage never becomes an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{
    ClaimOutcome, ClaimRequest, Fingerprint, IdempotencyStore, Key, MemoryStore, Record, Response,
    Result,
};
use idem_fuzz::Input;
use idem_hybrid::{Cache, Hit, HybridStore, Lookup};

const HOUR: Duration = Duration::from_secs(3600);

/// A cache whose entries the test writes.
#[derive(Debug, Clone, Default)]
struct Altered(Arc<Mutex<HashMap<Key, Bytes>>>);

#[async_trait]
impl Cache for Altered {
    type Ticket = ();

    async fn read(&self, key: &Key) -> Result<Lookup<()>> {
        let entry = self.0.lock().unwrap().get(key).cloned();
        let hit = entry.map(|entry| Hit {
            entry,
            age: Duration::ZERO,
            remaining: HOUR,
        });
        Ok(Lookup { hit, ticket: () })
    }

    async fn store(&self, key: &Key, (): &(), entry: Bytes, _: Duration) -> Result<bool> {
        self.0.lock().unwrap().insert(key.clone(), entry);
        Ok(true)
    }

    async fn invalidate(&self, key: &Key) -> Result<()> {
        self.0.lock().unwrap().remove(key);
        Ok(())
    }
}

fn request(id: &str) -> ClaimRequest {
    let key = Key::new("s", "o", id).unwrap();
    ClaimRequest::new(key, Fingerprint::raw("same")).with_retention(HOUR)
}

fn response(id: &str) -> Response {
    Response::new(200, format!("of {id}"))
}

/// Changes, cuts or joins the entries as the input says.
fn altered(input: &mut Input<'_>, one: &Bytes, other: &Bytes) -> Bytes {
    let mut entry = match input.below(3) {
        0 => one.to_vec(),
        1 => other.to_vec(),
        _ => {
            let cut = input.below(256);
            let head = &one[..cut.min(one.len())];
            [head, &other[cut.min(other.len())..]].concat()
        }
    };
    for _ in 0..input.below(6) {
        let (at, flip) = (input.below(256), input.byte());
        if let Some(byte) = entry.get_mut(at) {
            *byte ^= flip;
        }
    }
    match input.below(4) {
        0 => entry.truncate(input.below(256)),
        1 => entry.extend_from_slice(input.bytes(40)),
        2 => entry = input.bytes(200).to_vec(),
        _ => {}
    }
    entry.into()
}

async fn answers_are_the_databases(bytes: &[u8]) {
    let cache = Altered::default();
    let store = HybridStore::new(cache.clone(), MemoryStore::new());
    for id in ["one", "other"] {
        let outcome = store.claim(&request(id)).await.unwrap();
        let claim = outcome.acquired().unwrap();
        store.complete(&claim, &response(id), HOUR).await.unwrap();
        // The cache gets what a duplicate reads.
        drop(store.claim(&request(id)).await.unwrap());
        store.settled().await;
    }
    let entry = |id| {
        let entries = cache.0.lock().unwrap();
        entries.get(request(id).key()).cloned().unwrap()
    };
    let (one, other) = (entry("one"), entry("other"));
    let mut input = Input(bytes);
    for id in ["one", "other", "none"] {
        let entry = altered(&mut input, &one, &other);
        cache
            .0
            .lock()
            .unwrap()
            .insert(request(id).key().clone(), entry);
    }
    for id in ["one", "other"] {
        match store.get(request(id).key()).await.unwrap() {
            Some(Record::Completed(record)) => assert_eq!(record.response, response(id)),
            found => panic!("{id}: {found:?}"),
        }
        match store.claim(&request(id)).await.unwrap() {
            ClaimOutcome::Completed(record) => assert_eq!(record.response, response(id)),
            outcome => panic!("{id}: {outcome:?}"),
        }
    }
    assert!(store.get(request("none").key()).await.unwrap().is_none());
    let outcome = store.claim(&request("none")).await.unwrap();
    assert!(outcome.acquired().is_some());
}

#[test]
fn entry() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    check!("hybrid::entry", |bytes: &[u8]| {
        runtime.block_on(answers_are_the_databases(bytes));
    });
}
