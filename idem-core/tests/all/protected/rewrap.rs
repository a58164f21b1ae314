//! Re-encryption of old records.

use std::sync::Arc;

use idem_core::wrappers::Protected;
use idem_core::wrappers::protected::{Peppers, PlainRecords, Rewrapped};
use idem_core::{
    Checkpoint, ClaimOutcome, ClaimRequest, Error, ErrorKind, Failure, IdempotencyStore,
    MemoryStore, Metadata, StalePolicy,
};

use super::support::{
    HOUR, SECRET, claimed, failure, hold, key, request, response, ring, stored, under,
};

async fn rewrapped(store: &Protected<MemoryStore>) -> Rewrapped {
    let mut all = store.rewrap(None, 3).await.unwrap();
    while let Some(next) = all.next.take() {
        all = all.and(store.rewrap(Some(&next), 3).await.unwrap());
    }
    all
}

#[tokio::test]
async fn old_records_are_read_without_their_key_afterwards() {
    let bare = MemoryStore::new();
    let before = under(&bare, &["k1"]).with_peppers(Peppers::new([1; 32]).unwrap());
    for id in ["a", "b", "c", "d", "e"] {
        let claim = claimed(&before, &request(id)).await;
        match id {
            "d" => before.fail(&claim, &failure(), HOUR).await.unwrap(),
            _ => before.complete(&claim, &response(), HOUR).await.unwrap(),
        }
    }
    let after = under(&bare, &["k2", "k1"]).with_peppers(Peppers::new([1; 32]).unwrap());
    let late = claimed(&before, &request("late")).await;
    let first = rewrapped(&after).await;
    assert_eq!(
        (first.rewritten, first.in_flight, first.looked_at),
        (5, 1, 6)
    );
    assert!(!first.is_done());
    after.complete(&late, &response(), HOUR).await.unwrap();
    assert_eq!(rewrapped(&after).await.rewritten, 1);
    let last = rewrapped(&after).await;
    assert!(last.is_done() && last.current == 6, "{last:?}");

    let only = under(&bare, &["k2"]).with_peppers(Peppers::new([1; 32]).unwrap());
    for id in ["a", "b", "c", "e", "late"] {
        let record = only.get(&key(id)).await.unwrap().unwrap();
        assert_eq!(record.response(), Some(&response()));
        assert_eq!(record.info().metadata.get("host"), Some(SECRET));
        assert_eq!(record.info().fingerprint, *request(id).fingerprint());
    }
    let outcome = only.claim(&request("d")).await.unwrap();
    let ClaimOutcome::Failed(failed) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(failed.failure, failure());
}

#[tokio::test]
async fn plain_records_are_encrypted_if_they_are_accepted() {
    let bare = MemoryStore::new();
    let claim = claimed(&bare, &request("a")).await;
    bare.complete(&claim, &response(), HOUR).await.unwrap();
    let refused = rewrapped(&under(&bare, &["k1"])).await;
    assert_eq!((refused.unreadable, refused.rewritten), (1, 0));
    let kind = refused.first_error.as_ref().map(Error::kind);
    assert_eq!(kind, Some(ErrorKind::Misconfigured));

    let accepting = under(&bare, &["k1"]).with_plain_records(PlainRecords::Accept);
    assert_eq!(rewrapped(&accepting).await.rewritten, 1);
    assert!(!stored(&bare, "a").await.contains(SECRET));
    let strict = under(&bare, &["k1"]);
    let record = strict.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(record.response(), Some(&response()));
    assert!(rewrapped(&strict).await.is_done());
}

#[tokio::test]
async fn what_cannot_be_decrypted_is_counted_and_left() {
    let bare = MemoryStore::new();
    let other = under(&bare, &["k0"]);
    let claim = claimed(&other, &request("a")).await;
    other.complete(&claim, &response(), HOUR).await.unwrap();
    let found = rewrapped(&under(&bare, &["k2", "k1"])).await;
    assert_eq!((found.unreadable, found.is_done()), (1, false));
    assert!(found.first_error.unwrap().to_string().contains("`k0`"));
    assert!(other.get(&key("a")).await.is_ok());
    let without = Protected::new(bare.clone()).rewrap(None, 10).await;
    assert_eq!(without.unwrap_err().kind(), ErrorKind::Misconfigured);
}

#[tokio::test]
async fn records_without_anything_to_encrypt_are_left() {
    let bare = MemoryStore::new();
    let store = under(&bare, &["k2", "k1"]);
    let plain = |id| request(id).with_metadata(Metadata::new());
    hold(&store, &plain("held")).await;
    let abandoned = plain("abandoned")
        .with_lease(std::time::Duration::from_millis(1))
        .with_on_stale(StalePolicy::Fail);
    hold(&store, &abandoned).await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while store.fail_abandoned(10).await.unwrap() == 0 {
        assert!(
            std::time::Instant::now() < deadline,
            "the lease does not end"
        );
        tokio::task::yield_now().await;
    }
    let found = rewrapped(&store).await;
    assert!(found.is_done() && found.current == 2, "{found:?}");
    // A checkpoint may be under any key.
    let claim = claimed(&store, &plain("pointed")).await;
    let point = Checkpoint::new("p", "data").unwrap();
    store
        .checkpoints()
        .unwrap()
        .checkpoint(&claim, &point)
        .await
        .unwrap();
    assert_eq!(rewrapped(&store).await.in_flight, 1);
    // Abandoned, but with metadata under another key.
    let before = under(&bare, &["k1"]);
    let held = abandoned.with_metadata(Metadata::new().with("host", SECRET));
    let again = ClaimRequest::new(key("again"), *held.fingerprint())
        .with_lease(held.lease())
        .with_on_stale(StalePolicy::Fail)
        .with_metadata(held.metadata().clone());
    hold(&before, &again).await;
    while store.fail_abandoned(10).await.unwrap() == 0 {
        assert!(
            std::time::Instant::now() < deadline,
            "the lease does not end"
        );
        tokio::task::yield_now().await;
    }
    assert_eq!(rewrapped(&store).await.rewritten, 1);
    let record = under(&bare, &["k2"])
        .get(&key("again"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.info().metadata.get("host"), Some(SECRET));
    let idem_core::Record::Failed(record) = record else {
        panic!("not failed");
    };
    assert_eq!(record.failure, Failure::abandoned());
}

/// Holders complete, repeat, fail and are retried while a pass after the other re-encrypts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pass_runs_beside_traffic() {
    let bare = MemoryStore::new();
    let keys = ring(&["k1", "k2"]);
    let store = Arc::new(Protected::new(bare.clone()).with_keys(Arc::clone(&keys)));
    let writers = (0..4).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for number in 0..50 {
                let id = format!("{writer}-{number}");
                let claim = claimed(&*store, &request(&id)).await;
                store.fail(&claim, &failure(), HOUR).await.unwrap();
                tokio::task::yield_now().await;
                store.fail(&claim, &failure(), HOUR).await.unwrap();
                let retry = request(&id).with_on_failed(idem_core::FailedPolicy::Retry);
                let claim = claimed(&*store, &retry).await;
                store.complete(&claim, &response(), HOUR).await.unwrap();
                tokio::task::yield_now().await;
                store.complete(&claim, &response(), HOUR).await.unwrap();
            }
        })
    });
    let mut writers = writers.collect::<Vec<_>>();
    for turn in 0_usize.. {
        keys.make_current(["k1", "k2"][turn % 2]).unwrap();
        rewrapped(&store).await;
        let mut left = Vec::new();
        for writer in writers {
            match writer.is_finished() {
                true => writer.await.unwrap(),
                false => left.push(writer),
            }
        }
        writers = left;
        if writers.is_empty() {
            break;
        }
        tokio::task::yield_now().await;
    }
    keys.make_current("k2").unwrap();
    rewrapped(&store).await;
    assert!(rewrapped(&store).await.is_done());
    let only = under(&bare, &["k2"]);
    for (writer, number) in (0..4).flat_map(|writer| (0..50).map(move |number| (writer, number))) {
        let record = only
            .get(&key(&format!("{writer}-{number}")))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(record.response(), Some(&response()));
    }
}
