//! Work that stores how far it got, and work that goes on from there.

use std::time::Duration;

use idem_core::engine::InterruptPolicy;
use idem_core::{BoxError, ErrorKind, ErrorPolicy, IdempotencyStore, Policy, Result, Work};
use tokio::sync::Notify;

use super::support::{Deadline, Fault, Scripted, calm, idem, key};

fn brief() -> Policy {
    Policy::default()
        .with_lease(Duration::from_millis(50))
        .with_on_cancel(InterruptPolicy::LetExpire)
}

/// Returns what the last checkpoint says to the next attempt.
async fn reads(work: Work) -> Result<Option<(String, u32)>> {
    let point = work.last_checkpoint().await?;
    point
        .map(|point| Ok((point.name().to_owned(), point.from_json()?)))
        .transpose()
}

/// The value of the next run that gets the key.
async fn next(store: &Scripted, policy: Policy) -> Option<(String, u32)> {
    let idem = idem(store, policy);
    let deadline = Deadline::in_half_a_minute();
    loop {
        match idem.run(key(), &1, reads).await {
            Ok(outcome) => return outcome.into_inner(),
            Err(error) if error.retry_after().is_some() => deadline.pause("the takeover").await,
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_takeover_begins_with_the_last_checkpoint() {
    let (store, stored) = (Scripted::new(), Notify::new());
    let killed = async |work: Work| {
        assert!(work.last_checkpoint().await?.is_none());
        work.checkpoint("reserved", &1).await?;
        work.checkpoint("charged", &2).await?;
        stored.notify_one();
        std::future::pending::<Result<u32>>().await
    };
    let idem = idem(&store, brief());
    tokio::select! {
        ended = idem.run(key(), &1, killed) => panic!("{ended:?}"),
        () = stored.notified() => {}
    }
    assert_eq!(next(&store, brief()).await, Some(("charged".to_owned(), 2)));
}

#[tokio::test]
async fn a_call_of_a_store_out_of_reach_is_repeated() {
    let store = Scripted::new();
    for fault in [Fault::Down, Fault::LostAnswer] {
        store.next("checkpoint", &[fault, fault]);
        store.next("last_checkpoint", &[fault, fault]);
        let work = async |work: Work| {
            work.checkpoint("half", &7).await?;
            let read = reads(work).await?;
            assert_eq!(read, Some(("half".to_owned(), 7)));
            Err::<(), BoxError>("again".into())
        };
        let error = idem(&store, calm()).run(key(), &1, work).await.unwrap_err();
        assert_eq!(error.into_work().unwrap().to_string(), "again");
    }
    assert_eq!(
        (store.calls("checkpoint"), store.calls("last_checkpoint")),
        (6, 6)
    );
}

#[tokio::test]
async fn a_run_that_has_lost_the_claim_stores_nothing() {
    let store = Scripted::new();
    store.always("renew", Fault::Down);
    let late = async |work: Work| {
        work.checkpoint("first", &1).await?;
        work.lost().await;
        assert_eq!(next(&store, brief()).await, Some(("first".to_owned(), 1)));
        let error = work.checkpoint("second", &2).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ClaimLost);
        assert_eq!(reads(work).await.unwrap_err().kind(), ErrorKind::ClaimLost);
        Err::<u32, BoxError>("too late".into())
    };
    let error = idem(&store, brief())
        .run(key(), &1, late)
        .await
        .unwrap_err();
    assert_eq!(error.into_work().unwrap().to_string(), "too late");
}

#[tokio::test]
async fn an_error_loses_the_checkpoint_unless_the_claim_is_left_to_expire() {
    for (policy, is_left, kept) in [
        (ErrorPolicy::Release, false, false),
        (ErrorPolicy::LetExpire, false, true),
        (ErrorPolicy::Release, true, true),
    ] {
        let store = Scripted::new();
        let policy = brief().with_on_error(policy);
        let failing = async |work: Work| {
            work.checkpoint("half", &7).await?;
            if is_left {
                work.let_expire();
            }
            Err::<u32, BoxError>("not now".into())
        };
        assert!(
            idem(&store, policy.clone())
                .run(key(), &1, failing)
                .await
                .is_err()
        );
        let found = next(&store, policy).await;
        assert_eq!(found, kept.then(|| ("half".to_owned(), 7)));
    }
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_is_refused() {
    let store = Scripted::new();
    let limit = store.limits().max_result_bytes;
    let work = async |work: Work| {
        for (name, size) in [("", 1), ("a\u{0}", 1), ("large", limit)] {
            let error = work.checkpoint(name, &"x".repeat(size)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
        }
        Ok::<_, BoxError>(7)
    };
    idem(&store, calm()).run(key(), &1, work).await.unwrap();
}

#[tokio::test]
async fn without_a_key_nothing_is_stored() {
    let store = Scripted::new();
    let work = async |work: Work| {
        work.checkpoint("half", &7).await?;
        assert!(work.last_checkpoint().await?.is_none());
        Ok::<_, BoxError>(7)
    };
    idem(&store, calm())
        .run_optional(None, &1, work)
        .await
        .unwrap();
    assert_eq!(store.calls("checkpoint"), 0);
}
