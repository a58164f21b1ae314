//! Changes of the key while calls are under way, and repeated calls across one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use idem_core::wrappers::protected::{DataKey, KeyRing, KeyService, Protected};
use idem_core::{
    BatchStore, ClaimOutcome, Error, ErrorKind, Finish, IdempotencyStore, MemoryStore, Response,
    Result,
};

use super::support::{HOUR, claimed, data_key, failure, key, request, response, ring, under};

#[tokio::test]
async fn a_repeated_end_succeeds_under_the_same_key_and_another_one() {
    for now in [["k1", "k2"], ["k2", "k1"]] {
        let bare = MemoryStore::new();
        let before = under(&bare, &["k1", "k2"]);
        let after = under(&bare, &now);
        let claim = claimed(&before, &request("a")).await;
        // The answer was lost, so the caller repeats the call.
        before.complete(&claim, &response(), HOUR).await.unwrap();
        after.complete(&claim, &response(), HOUR).await.unwrap();
        let other = after.complete(&claim, &Response::new(200, "x"), HOUR).await;
        assert_eq!(other.unwrap_err().kind(), ErrorKind::AlreadySealed);
        let other = after.fail(&claim, &failure(), HOUR).await;
        assert_eq!(other.unwrap_err().kind(), ErrorKind::AlreadySealed);

        let failed = claimed(&before, &request("b")).await;
        before.fail(&failed, &failure(), HOUR).await.unwrap();
        after.fail(&failed, &failure(), HOUR).await.unwrap();
        let other = after.complete(&failed, &response(), HOUR).await;
        assert_eq!(other.unwrap_err().kind(), ErrorKind::AlreadySealed);

        let (complete, fail) = (
            |response| Finish::Complete {
                claim: claim.clone(),
                response,
                retention: HOUR,
            },
            Finish::Fail {
                claim: failed.clone(),
                failure: failure(),
                retention: HOUR,
            },
        );
        let items = [
            complete(response()),
            fail,
            complete(Response::new(200, "x")),
        ];
        let ends = after.finish_many(&items).await;
        assert!(ends[0].is_ok() && ends[1].is_ok(), "{ends:?}");
        let kinds = ends[2].as_ref().map_err(Error::kind);
        assert_eq!(kinds, Err(ErrorKind::AlreadySealed));
    }
}

#[tokio::test]
async fn a_holder_that_was_overtaken_is_not_answered_with_the_winner_s_result() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k1", "k2"]);
    let late = claimed(&store, &request("a")).await;
    store.release(&late).await.unwrap();
    let winner = claimed(&store, &request("a")).await;
    store.complete(&winner, &response(), HOUR).await.unwrap();
    let after = under(&bare, &["k2", "k1"]);
    let error = after.complete(&late, &response(), HOUR).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ClaimLost);
}

#[tokio::test]
async fn a_repeated_end_under_a_missing_key_may_have_taken_effect() {
    let bare = MemoryStore::new();
    let before = under(&bare, &["k1"]);
    let claim = claimed(&before, &request("a").with_metadata(Default::default())).await;
    before.complete(&claim, &response(), HOUR).await.unwrap();
    let error = under(&bare, &["k2"])
        .complete(&claim, &response(), HOUR)
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert_eq!(error.effect(), idem_core::Effect::Unknown);
    assert!(error.to_string().contains("`k1`"), "{error}");
}

/// Claims of many keys, each completed twice, while the key of the ring changes all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keys_change_beside_traffic() {
    let bare = MemoryStore::new();
    let keys = ring(&["k1", "k2"]);
    let store = Arc::new(Protected::new(bare.clone()).with_keys(Arc::clone(&keys)));
    let is_over = Arc::new(AtomicBool::new(false));
    let rotation = {
        let (keys, is_over) = (Arc::clone(&keys), Arc::clone(&is_over));
        tokio::task::spawn_blocking(move || {
            let mut changes = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                keys.make_current(["k1", "k2"][changes as usize % 2])
                    .unwrap();
                changes += 1;
                std::thread::yield_now();
            }
            changes
        })
    };
    let writers = (0..8).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for number in 0..100 {
                let id = format!("{writer}-{number}");
                let claim = claimed(&store, &request(&id)).await;
                let response = Response::new(200, id.clone());
                store.complete(&claim, &response, HOUR).await.unwrap();
                tokio::task::yield_now().await;
                store.complete(&claim, &response, HOUR).await.unwrap();
                let again = store.claim(&request(&id)).await.unwrap();
                let ClaimOutcome::Completed(replay) = again else {
                    panic!("{again:?}");
                };
                assert_eq!(replay.response, response);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(rotation.await.unwrap() > 2, "the key did not change");
}

#[derive(Debug)]
struct Kms;

#[async_trait]
impl KeyService for Kms {
    async fn wrap(&self, secret: &[u8; 32]) -> Result<Vec<u8>> {
        Ok(secret.iter().rev().map(|byte| !byte).collect())
    }

    async fn unwrap(&self, wrapped: &[u8]) -> Result<[u8; 32]> {
        let mut secret: [u8; 32] = wrapped.try_into().map_err(|_| Error::corrupt("not 32"))?;
        secret.reverse();
        Ok(secret.map(|byte| !byte))
    }
}

#[tokio::test]
async fn a_key_of_a_service_is_the_same_in_every_process() {
    let (first, wrapped) = DataKey::generate("k1", &Kms).await.unwrap();
    let bare = MemoryStore::new();
    let one = Protected::new(bare.clone()).with_keys(Arc::new(KeyRing::new(first)));
    let claim = claimed(&one, &request("a")).await;
    one.complete(&claim, &response(), HOUR).await.unwrap();
    let second = DataKey::unwrap("k1", &wrapped, &Kms).await.unwrap();
    let two = Protected::new(bare.clone()).with_keys(Arc::new(KeyRing::new(second)));
    let record = two.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(record.response(), Some(&response()));
    // Another key with the same id is found out.
    let other = Protected::new(bare).with_keys(Arc::new(KeyRing::new(data_key("k1"))));
    let error = other.get(&key("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(DataKey::unwrap("k1", &wrapped[1..], &Kms).await.is_err());
}
