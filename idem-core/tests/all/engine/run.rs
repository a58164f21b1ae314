//! Fresh and replayed values, errors, policies by operation.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use idem_core::{
    ErrorKind, Failure, Fingerprint, Idempotency, IdempotencyStore, Key, MemoryStore, Outcome,
    Policy, Record, Response, RunError, Work,
};
use serde::{Deserialize, Serialize};

use super::support::{Effects, Fault, Scripted, calm, counted, idem, key};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: u32,
    note: Option<String>,
}

#[tokio::test]
async fn work_runs_once_and_its_value_is_replayed() {
    let idem = Idempotency::new(MemoryStore::new());
    let effects = Effects::default();
    let work = async |work: Work| {
        assert_eq!((work.attempts(), work.is_takeover()), (1, false));
        assert_eq!(work.claim().map(|claim| claim.token()), work.token());
        let note = Some("paid".to_owned());
        Ok::<_, io::Error>(Receipt {
            number: effects.happen(),
            note,
        })
    };
    let fresh = idem.run(key(), "request", work).await.unwrap();
    let again = idem.run(key(), "request", work).await.unwrap();
    assert!(!fresh.is_replayed() && again.is_replayed());
    assert_eq!(fresh.into_inner(), again.into_inner());
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn no_result_is_stored_as_null_and_replayed() {
    let store = MemoryStore::new();
    let idem = Idempotency::new(store.clone());
    let nothing = async |_: Work| Ok::<(), io::Error>(());
    assert_eq!(
        idem.run(key(), &1, nothing).await.unwrap(),
        Outcome::Fresh(())
    );
    let again = idem.run(key(), &1, nothing).await.unwrap();
    assert_eq!(again.into_replayed(), Some(()));
    let record = store.get(key()).await.unwrap().unwrap();
    let response = record.response().unwrap();
    assert_eq!(response.body().as_ref(), b"null");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()[0].0, "content-type");
}

#[tokio::test]
async fn the_same_key_for_another_request_is_a_conflict_and_nothing_runs() {
    let idem = Idempotency::new(MemoryStore::new());
    let effects = Effects::default();
    let work = |_: Work| counted(effects.clone());
    idem.run(key(), &1, work).await.unwrap();
    let error = idem.run(key(), &2, work).await.unwrap_err();
    let RunError::Conflict(conflict) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(conflict.info.fingerprint, Fingerprint::of(&1).unwrap());
    assert!(!error.has_run());
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn without_a_key_the_work_just_runs() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let effects = Effects::default();
    for _ in 0..2 {
        let outcome = idem.run_optional(None, &1, async |work: Work| {
            assert!(work.claim().is_none() && work.token().is_none() && !work.is_lost());
            assert_eq!(work.derive("bank"), work.derive("bank"));
            Ok::<_, io::Error>((effects.happen(), work.key().clone()))
        });
        assert!(!outcome.await.unwrap().is_replayed());
    }
    let error = idem.run_optional(None, &1, async |_| Err::<(), _>(io::Error::other("no")));
    assert!(matches!(error.await, Err(RunError::Work(_))));
    assert_eq!((effects.count(), store.calls("claim")), (2, 0));
    let outcome = idem.run_optional(Some(key()), &1, |_| counted(effects.clone()));
    outcome.await.unwrap();
    assert_eq!(store.calls("complete"), 1);
}

#[tokio::test]
async fn a_raw_response_is_replayed_byte_for_byte() {
    let store = MemoryStore::new();
    let idem = Idempotency::new(store.clone());
    let fingerprint = Fingerprint::raw("POST /payments");
    let response = Response::new(201, vec![0, 255, 10]).with_header("x-id", vec![1, 2]);
    let work = async |_: Work| Ok::<_, io::Error>(response.clone());
    let fresh = idem.run_response(key(), fingerprint, work).await.unwrap();
    let again = idem.run_response(key(), fingerprint, work).await.unwrap();
    assert_eq!(fresh, Outcome::Fresh(response.clone()));
    let record = store.get(key()).await.unwrap();
    let Some(Record::Completed(record)) = record else {
        panic!("not completed: {record:?}");
    };
    assert_eq!(again.first_answered_at(), Some(record.sealed_at));
    assert_eq!(again.into_replayed(), Some(response));
}

#[tokio::test]
async fn a_stored_response_of_another_type_is_a_codec_error() {
    let idem = Idempotency::new(MemoryStore::new());
    let words = async |_: Work| Ok::<_, io::Error>("word".to_owned());
    idem.run(key(), &1, words).await.unwrap();
    let effects = Effects::default();
    let outcome = idem.run(key(), &1, |_| counted(effects.clone())).await;
    let Err(RunError::Codec(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(!error.to_string().contains("word"), "{error}");
    assert_eq!(effects.count(), 0);
}

#[tokio::test]
async fn an_error_is_released_and_the_work_runs_again() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let failing = async |_: Work| Err::<u32, _>(io::Error::other("no money"));
    let error = idem.run(key(), &1, failing).await.unwrap_err();
    assert_eq!(error.to_string(), "no money");
    assert!(error.has_run());
    assert!(store.peek().is_none());
    let outcome = idem.run(key(), &1, |_| counted(Effects::default()));
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(1));
}

#[tokio::test]
async fn a_recorded_error_is_replayed_and_the_work_does_not_run_again() {
    let idem = Idempotency::new(MemoryStore::new()).with_policy(Policy::at_most_once());
    let failing = async |_: Work| Err::<u32, _>(io::Error::other("no money"));
    let error = idem.run(key(), &1, failing).await.unwrap_err();
    assert!(matches!(error, RunError::Work(_)), "{error:?}");
    let effects = Effects::default();
    let outcome = idem.run(key(), &1, |_| counted(effects.clone())).await;
    let Err(RunError::Failed(failed)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(failed.failure.code(), Failure::FAILED);
    assert_eq!(failed.failure.message(), "no money");
    assert_eq!(effects.count(), 0);
}

#[tokio::test]
async fn an_error_text_of_any_length_is_recorded() {
    let limits = idem_core::Limits::DEFAULT.with_max_result_bytes(1000);
    for store in [MemoryStore::new(), MemoryStore::with_limits(limits)] {
        let idem = Idempotency::new(store.clone()).with_policy(Policy::at_most_once());
        let text = "é".repeat(100_000);
        let failing = async |_: Work| Err::<u32, _>(text.clone());
        let error = idem.run(key(), &1, failing).await.unwrap_err();
        assert_eq!(error.into_work(), Some(text.clone()));
        let error = idem.run(key(), &1, failing).await.unwrap_err();
        assert!(matches!(error, RunError::Failed(_)));
    }
}

#[tokio::test]
async fn each_operation_follows_its_own_policy() {
    let lease = Duration::from_secs(77);
    let idem = Idempotency::new(Arc::new(MemoryStore::new()) as Arc<dyn IdempotencyStore>)
        .with_policy(Policy::default().with_lease(lease))
        .with_operation_policy("payments", Policy::at_most_once());
    let payment = Key::new("tenant", "payments", "1").unwrap();
    assert_eq!(*idem.policy_for(&payment), Policy::at_most_once());
    assert_eq!(idem.policy_for(key()).lease(), lease);
    let failing = async |_: Work| Err::<(), _>(io::Error::other("no"));
    let _ = idem.run(&payment, &1, failing).await;
    let _ = idem.run(key(), &1, failing).await;
    assert!(idem.store().get(&payment).await.unwrap().is_some());
    assert!(idem.store().get(key()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_bad_policy_is_refused_before_anything_is_sent() {
    let store = Scripted::new();
    let idem = idem(&store, Policy::default().with_lease(Duration::ZERO));
    let outcome = idem.run(key(), &1, |_| counted(Effects::default())).await;
    let Err(RunError::Store(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(store.calls("claim"), 0);
}

#[tokio::test]
async fn keys_for_what_the_work_calls_are_the_same_at_every_attempt() {
    let idem = Idempotency::new(MemoryStore::new());
    let mut seen = Vec::new();
    for _ in 0..2 {
        let derive = async |work: Work| Err::<(), _>(work.derive("bank").id().to_owned());
        let error = idem.run(key(), &1, derive).await.unwrap_err();
        seen.push(error.into_work().unwrap());
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], key().derive("bank").id());
}

#[tokio::test]
async fn a_claim_is_repeated_as_the_same_attempt() {
    let store = Scripted::new();
    store.next("claim", &[Fault::Down, Fault::LostAnswer, Fault::Down]);
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, |_| counted(Effects::default()));
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(1));
    let attempts = store.attempts();
    assert_eq!(attempts.len(), 4);
    assert!(attempts.iter().all(|attempt| *attempt == attempts[0]));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_gets_no_answer_is_repeated() {
    let store = Scripted::new();
    store.next("claim", &[Fault::Silence]);
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, |_| counted(Effects::default()));
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(1));
    assert_eq!(store.attempts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_is_an_error_that_speaks_for_all_tries() {
    let effects = Effects::default();
    for (first, effect) in [
        (Fault::Down, idem_core::Effect::None),
        (Fault::LostAnswer, idem_core::Effect::Unknown),
    ] {
        let store = Scripted::new();
        store.next("claim", &[first]);
        store.always("claim", Fault::Down);
        let idem = idem(&store, calm());
        let error = idem
            .run(key(), &1, |_| counted(effects.clone()))
            .await
            .unwrap_err();
        assert!(!error.has_run());
        assert_eq!(error.store_error().unwrap().effect(), effect);
        assert!(store.calls("claim") > 10);
    }
    assert_eq!(effects.count(), 0);
}

#[tokio::test]
async fn a_call_with_a_permanent_error_is_not_repeated() {
    let store = Scripted::new();
    store.always("claim", Fault::Broken);
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, |_| counted(Effects::default())).await;
    assert!(matches!(outcome, Err(RunError::Store(_))), "{outcome:?}");
    assert_eq!(store.calls("claim"), 1);
}

#[test]
fn without_a_runtime_a_run_is_an_error() {
    let idem = Idempotency::new(MemoryStore::new());
    let run = std::pin::pin!(idem.run(key(), &1, |_| counted(Effects::default())));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(RunError::Store(error))) = run.poll(&mut context) else {
        panic!("an error is expected");
    };
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}

#[test]
fn a_run_is_send_and_its_error_a_standard_error() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    error::<RunError<io::Error, Receipt>>();
    let idem = Idempotency::new(MemoryStore::new());
    drop(send(idem.run(key(), &1, async |work: Work| {
        work.lost().await;
        Ok::<_, io::Error>(1)
    })));
}
