//! The last step: sealed once the work has returned, whatever happens then.

use std::io;
use std::time::Duration;

use idem_core::engine::Handoff;
use idem_core::{
    ErrorKind, Failure, Fingerprint, IdempotencyStore, Limits, MemoryStore, Metadata, Outcome,
    Policy, Record, Response, RunError, Work,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::support::{Effects, Fault, Scripted, calm, counted, idem, key, until, until_failed};

fn is_completed(store: &Scripted) -> bool {
    matches!(store.peek(), Some(Record::Completed(_)))
}

#[tokio::test]
async fn a_seal_whose_answer_is_lost_is_repeated() {
    let store = Scripted::new();
    store.next(
        "complete",
        &[Fault::Down, Fault::LostAnswer, Fault::LostAnswer],
    );
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, |_| counted(Effects::default()));
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(1));
    assert_eq!(store.calls("complete"), 4);
}

#[tokio::test]
async fn a_caller_that_leaves_during_the_seal_does_not_stop_it() {
    let store = Scripted::new();
    store.always("complete", Fault::Down);
    let idem = idem(&store, calm());
    let effects = Effects::default();
    {
        let mut run = std::pin::pin!(idem.run(key(), &1, |_| counted(effects.clone())));
        tokio::select! {
            _ = &mut run => panic!("the store is away"),
            () = until("sealing began", || store.calls("complete") > 1) => {}
        }
    }
    store.heal();
    until("sealed", || is_completed(&store)).await;
    let outcome = idem.run(key(), &1, |_| counted(effects.clone())).await;
    assert_eq!(outcome.unwrap().into_replayed(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_sealed_is_not_lost() {
    let store = Scripted::new();
    store.always("complete", Fault::LostAnswer);
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, |_| counted(Effects::default()));
    let error = outcome.await.unwrap_err();
    assert!(error.has_run());
    let source = error.store_error().unwrap();
    assert_eq!(source.kind(), ErrorKind::Unavailable);
    assert_eq!(source.effect(), idem_core::Effect::Unknown);
    assert_eq!(error.into_unsealed(), Some(1));
}

#[tokio::test]
async fn a_value_of_a_lost_claim_is_not_lost() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, async |work: Work| {
        // The effect of an operator's forced release.
        store.release(&work.claim().unwrap()).await.unwrap();
        Ok::<_, io::Error>("value".to_owned())
    });
    let error = outcome.await.unwrap_err();
    assert!(!format!("{error:?}").contains("value"), "{error:?}");
    let RunError::NotStored { value, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!(value, "value");
    assert!(source.is_claim_lost());
}

#[tokio::test]
async fn a_result_over_the_limit_never_runs_again() {
    let small = MemoryStore::with_limits(Limits::DEFAULT.with_max_result_bytes(100));
    for (store, policy) in [
        (Scripted::over(small.clone()), calm()),
        (Scripted::new(), calm().with_max_result_bytes(100)),
        (
            Scripted::new(),
            Policy::at_most_once().with_max_result_bytes(100),
        ),
    ] {
        let idem = idem(&store, policy);
        let effects = Effects::default();
        let work = async |_: Work| {
            effects.happen();
            Ok::<_, io::Error>("x".repeat(200))
        };
        let error = idem.run(key(), &1, work).await.unwrap_err();
        assert_eq!(error.store_error().unwrap().kind(), ErrorKind::InvalidInput);
        assert_eq!(error.into_unsealed().unwrap().len(), 200);
        let error = idem.run(key(), &1, work).await.unwrap_err();
        let RunError::Failed(failed) = error else {
            panic!("{error:?}");
        };
        assert_eq!(failed.failure.code(), Failure::NOT_STORED);
        assert_eq!((effects.count(), store.calls("complete")), (1, 0));
    }
}

#[tokio::test]
async fn a_result_without_a_json_form_never_runs_again() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let work = async |_: Work| {
        let entry = ((1, 2), 3);
        Ok::<_, io::Error>(std::collections::HashMap::from([entry]))
    };
    let error = idem.run(key(), &1, work).await.unwrap_err();
    assert_eq!(error.into_unsealed().unwrap().len(), 1);
    assert_eq!(until_failed(&store).await, Failure::NOT_STORED);
}

/// Runs work that gives this value, twice: it runs once, its value is not lost, and no caller ever
/// gets an error about corrupt data.
async fn is_not_stored<T>(value: T, why: &str)
where
    T: Serialize + DeserializeOwned + Clone + Send + Sync,
{
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let effects = Effects::default();
    let work = async |_: Work| {
        effects.happen();
        Ok::<_, io::Error>(value.clone())
    };
    let error = idem.run(key(), &1, work).await.unwrap_err();
    let source = error.store_error().unwrap();
    assert_eq!(source.kind(), ErrorKind::InvalidInput);
    assert!(source.to_string().contains(why), "{source}");
    assert!(error.into_unsealed().is_some());
    let RunError::Failed(failed) = idem.run(key(), &1, work).await.unwrap_err() else {
        panic!("{why}: the second run is not refused");
    };
    assert_eq!(failed.failure.code(), Failure::NOT_STORED);
    assert_eq!((effects.count(), store.calls("complete")), (1, 0));
}

#[tokio::test]
async fn a_result_that_json_does_not_carry_never_runs_again() {
    is_not_stored(f64::INFINITY, "not finite").await;
    is_not_stored(vec![Some(f64::NAN)], "not finite").await;
    is_not_stored(Some(None::<u8>), "`Some(None)`").await;
    is_not_stored(Some(()), "`Some(None)`").await;
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    is_not_stored(deep, "cannot be read back").await;
}

#[tokio::test]
async fn a_handed_over_result_that_json_does_not_carry_never_runs_again() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let fingerprint = Fingerprint::of(&1).unwrap();
    let hour = Duration::from_secs(3600);
    let handed = idem.hand_off(key(), fingerprint, Metadata::new(), hour, async |_| {
        Ok::<_, io::Error>(())
    });
    let Handoff::New(claim) = handed.await.unwrap() else {
        panic!("the key is new");
    };
    let work = async |_: Work| Ok::<_, io::Error>(f64::NAN);
    let ran = idem.resume(&claim, fingerprint, work).await;
    assert!(ran.unwrap_err().into_unsealed().unwrap().is_nan());
    assert_eq!(until_failed(&store).await, Failure::NOT_STORED);
}

#[tokio::test]
async fn errors_of_a_run_show_nothing_of_what_is_stored() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let text = async |_: Work| Ok::<_, io::Error>("SECRET-4242".to_owned());
    idem.run(key(), &1, text).await.unwrap();
    let number = async |_: Work| Ok::<_, io::Error>(7);
    let error = idem.run(key(), &1, number).await.unwrap_err();
    assert_eq!(error.store_error().unwrap().kind(), ErrorKind::Corrupt);
    let shown = format!("{error} {error:?} {error:#?}");
    assert!(!shown.contains("SECRET"), "the stored text is shown");
    let replay = idem.run(key(), &1, text).await;
    assert!(
        !format!("{replay:?}").contains("SECRET"),
        "the value is shown"
    );
}

#[tokio::test]
async fn work_that_seals_its_claim_itself_ends_like_others() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, async |work: Work| {
        let claim = work.claim().unwrap();
        let response = Response::json(&7).unwrap();
        let retention = Duration::from_secs(60);
        store.complete(&claim, &response, retention).await?;
        Ok::<_, idem_core::Error>(7)
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(7));
    let outcome = idem.run(key(), &1, |_| counted(Effects::default()));
    assert_eq!(outcome.await.unwrap().into_replayed(), Some(7));
}

#[tokio::test]
async fn work_that_seals_something_else_keeps_its_value() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, async |work: Work| {
        let claim = work.claim().unwrap();
        let response = Response::new(200, "other");
        store
            .complete(&claim, &response, Duration::from_secs(60))
            .await?;
        Ok::<_, idem_core::Error>(7)
    });
    let error = outcome.await.unwrap_err();
    let source = error.store_error().unwrap();
    assert_eq!(source.kind(), ErrorKind::AlreadySealed);
    assert_eq!(error.into_unsealed(), Some(7));
}

#[tokio::test(start_paused = true)]
async fn the_works_error_is_returned_also_when_the_store_is_away() {
    for policy in [calm(), Policy::at_most_once()] {
        let store = Scripted::new();
        store.always("release", Fault::Down);
        store.always("fail", Fault::LostAnswer);
        let failing = async |_: Work| Err::<(), _>(io::Error::other("no money"));
        let idem = idem(&store, policy);
        let outcome = idem.run(key(), &1, failing).await;
        assert_eq!(outcome.unwrap_err().to_string(), "no money");
        assert!(store.calls("release") + store.calls("fail") > 10);
    }
}

#[tokio::test]
async fn a_key_is_renewed_until_it_is_sealed() {
    let store = Scripted::new();
    store.always("complete", Fault::Down);
    let idem = idem(&store, calm().with_lease(Duration::from_millis(100)));
    let run = idem.clone();
    let run =
        tokio::spawn(async move { run.run(key(), &1, |_| counted(Effects::default())).await });
    until("renewed while sealing", || {
        store.calls("complete") > 0 && store.calls("renew") > 2
    })
    .await;
    store.heal();
    assert_eq!(run.await.unwrap().unwrap(), Outcome::Fresh(1));
}
