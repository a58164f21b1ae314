//! Masks and references.

use async_trait::async_trait;
use idem_core::wrappers::Protected;
use idem_core::wrappers::protected::Rebuild;
use idem_core::{
    BatchStore, ClaimOutcome, Effect, Error, ErrorKind, Finish, Idempotency, IdempotencyStore, Key,
    MemoryStore, Response, Result, Work,
};

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::support::{HOUR, SECRET, claimed, key, request, response, ring, stored};

fn masked(store: &MemoryStore) -> Protected<MemoryStore> {
    Protected::new(store.clone())
        .with_masked("cards.create", "/token")
        .with_masked("cards.create", "/cards/*/number")
}

#[tokio::test]
async fn masked_values_never_reach_the_store() {
    let bare = MemoryStore::new();
    let store = masked(&bare);
    let claim = claimed(&store, &request("a").with_metadata(Default::default())).await;
    let given = Response::new(
        201,
        format!(r#"{{ "token": "{SECRET}", "id": 1.50, "cards":[{{"number":"{SECRET}"}}] }}"#),
    );
    store.complete(&claim, &given, HOUR).await.unwrap();
    assert!(!stored(&bare, "a").await.contains(SECRET));
    let record = store.get(&key("a")).await.unwrap().unwrap();
    let body = r#"{ "token": "***", "id": 1.50, "cards":[{"number":"***"}] }"#;
    assert_eq!(record.response(), Some(&Response::new(201, body)));
    // The caller repeats the call with the response that it has.
    store.complete(&claim, &given, HOUR).await.unwrap();
    let finish = Finish::Complete {
        claim: claim.clone(),
        response: given,
        retention: HOUR,
    };
    assert!(store.finish_many(&[finish]).await[0].is_ok());
    let other = store
        .complete(&claim, &Response::new(200, "{}"), HOUR)
        .await;
    assert_eq!(other.unwrap_err().kind(), ErrorKind::AlreadySealed);
}

#[tokio::test]
async fn a_body_that_cannot_be_masked_is_not_stored() {
    let bare = MemoryStore::new();
    let store = masked(&bare);
    let claim = claimed(&store, &request("a")).await;
    for body in [&b"<html>"[..], b"{\"a\":1} {}", b"\xff"] {
        let error = store
            .complete(&claim, &Response::new(200, body), HOUR)
            .await;
        let error = error.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::InvalidInput, Effect::None)
        );
    }
    store
        .complete(&claim, &Response::new(204, ""), HOUR)
        .await
        .unwrap();
    // Other operations are not concerned.
    let other = Key::new("tenant", "pages.show", "a").unwrap();
    let request = idem_core::ClaimRequest::new(other, idem_core::Fingerprint::raw("r"));
    let claim = claimed(&store, &request).await;
    store
        .complete(&claim, &Response::new(200, "<html>"), HOUR)
        .await
        .unwrap();
}

/// Cards by their number, which only this table has.
#[derive(Debug, Clone, Default)]
struct Cards(Arc<AtomicU32>);

#[async_trait]
impl Rebuild for Cards {
    fn reference(&self, _key: &Key, response: &Response) -> Result<Response> {
        let card: serde_json::Value = response.from_json()?;
        Response::json(&card["id"])
    }

    async fn rebuild(&self, _key: &Key, reference: Response) -> Result<Response> {
        let id: u64 = reference.from_json()?;
        let state = self.0.load(Ordering::Relaxed);
        if state == 0 {
            return Err(Error::new(
                ErrorKind::Unavailable,
                Effect::None,
                "the table is locked",
            ));
        }
        Response::json(&serde_json::json!({"id": id, "state": state}))
    }
}

#[tokio::test]
async fn a_replay_is_made_from_a_reference() {
    let (bare, cards) = (MemoryStore::new(), Cards::default());
    let plain = Protected::new(bare.clone()).with_rebuild("cards.create", cards.clone());
    let encrypted = plain.clone().with_keys(ring(&["k1", "k2"]));
    let turned = plain.clone().with_keys(ring(&["k2", "k1"]));
    for (id, store) in [("a", plain), ("b", encrypted)] {
        cards.0.store(0, Ordering::Relaxed);
        let claim = claimed(&store, &request(id)).await;
        store.complete(&claim, &response(), HOUR).await.unwrap();
        store.complete(&claim, &response(), HOUR).await.unwrap();
        assert!(!stored(&bare, id).await.contains("x-a"));
        let error = store.claim(&request(id)).await.unwrap_err();
        // Never `Unavailable`: that may let a caller go on without the store.
        assert_eq!(error.kind(), ErrorKind::Contention);
        assert!(error.is_retryable());
        for state in [1, 2] {
            cards.0.store(state, Ordering::Relaxed);
            let outcome = store.claim(&request(id)).await.unwrap();
            let ClaimOutcome::Completed(replay) = outcome else {
                panic!("{outcome:?}");
            };
            let expected = Response::json(&serde_json::json!({"id": 7, "state": state})).unwrap();
            assert_eq!(replay.response, expected);
            let record = store.get(&key(id)).await.unwrap().unwrap();
            assert_eq!(record.response(), Some(&expected));
        }
        if id == "b" {
            turned.complete(&claim, &response(), HOUR).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_engine_runs_work_once_behind_all_options() {
    let runs = AtomicU32::new(0);
    let store = Protected::new(MemoryStore::new())
        .with_keys(ring(&["k1"]))
        .with_peppers(idem_core::wrappers::protected::Peppers::new([3; 16]).unwrap())
        .with_masked("cards.create", "/token");
    let idempotency = Idempotency::new(store);
    let work = async |work: Work| {
        runs.fetch_add(1, Ordering::Relaxed);
        work.checkpoint("begun", &1)
            .await
            .map_err(std::io::Error::other)?;
        Ok::<_, std::io::Error>(serde_json::json!({"token": SECRET, "id": 7}))
    };
    let first = idempotency.run(&key("a"), &1, work).await.unwrap();
    assert_eq!(first.into_inner()["token"], SECRET);
    let replay = idempotency.run(&key("a"), &1, work).await.unwrap();
    let replay = replay.into_replayed().unwrap();
    assert_eq!(
        (&replay["token"], &replay["id"]),
        (&"***".into(), &7.into())
    );
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}
