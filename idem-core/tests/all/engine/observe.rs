//! What observers receive.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::engine::InterruptPolicy;
use idem_core::engine::observe::{Decision, Ended, Ending, LeaseLoss, Observer, Retry};
use idem_core::{
    BusyPolicy, Claim, ClaimRequest, ErrorKind, ErrorPolicy, Fingerprint, Idempotency,
    IdempotencyStore, Key, Metadata, Policy, Work, engine::Handoff,
};

use super::support::{
    Effects, Fault, MINUTES, Scripted, calm, counted, idem, key, until, until_free,
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Decided(Decision),
    Ended(Ending, Option<ErrorKind>),
    Lost(LeaseLoss),
    Retried(&'static str, ErrorKind),
    WaitBegan,
    WaitEnded,
}

/// Everything that was received, and the times to the seals.
#[derive(Debug, Clone, Default)]
struct Recorder {
    events: Arc<Mutex<Vec<Event>>>,
    sealed_after: Arc<Mutex<Vec<Option<Duration>>>>,
}

impl Recorder {
    fn note(&self, observed: &Key, event: Event) {
        assert_eq!(observed, key());
        self.events.lock().unwrap().push(event);
    }

    fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    fn sealed_after(&self) -> Vec<Option<Duration>> {
        self.sealed_after.lock().unwrap().clone()
    }
}

impl Observer for Recorder {
    fn decided(&self, key: &Key, decision: Decision) {
        self.note(key, Event::Decided(decision));
    }

    fn ended(&self, key: &Key, ended: &Ended) {
        if ended.ending == Ending::Sealed {
            self.sealed_after
                .lock()
                .unwrap()
                .push(ended.since_first_seen);
        }
        self.note(key, Event::Ended(ended.ending, ended.error));
    }

    fn lease_lost(&self, key: &Key, loss: LeaseLoss) {
        self.note(key, Event::Lost(loss));
    }

    fn retried(&self, key: &Key, retry: Retry) {
        self.note(key, Event::Retried(retry.call, retry.kind));
    }

    fn wait_began(&self, key: &Key) {
        self.note(key, Event::WaitBegan);
    }

    fn wait_ended(&self, key: &Key, waited: Duration) {
        assert!(waited < MINUTES * 2);
        self.note(key, Event::WaitEnded);
    }
}

use Event::{Decided, Lost, Retried};

const SEALED: Event = Event::Ended(Ending::Sealed, None);
const RELEASED: Event = Event::Ended(Ending::Released, None);
const UNAVAILABLE: ErrorKind = ErrorKind::Unavailable;

fn observed(store: &Scripted, policy: Policy) -> (Idempotency, Recorder) {
    let recorder = Recorder::default();
    (
        idem(store, policy).with_observer(recorder.clone()),
        recorder,
    )
}

/// Claims the key as another attempt.
async fn other(store: &Scripted, lease: Duration) -> Claim {
    let request = ClaimRequest::new(key().clone(), Fingerprint::of(&1).unwrap()).with_lease(lease);
    store.claim(&request).await.unwrap().acquired().unwrap()
}

#[tokio::test]
async fn each_run_is_decided_once_and_each_claim_ends_once() {
    let store = Scripted::new();
    let (idem, recorder) = observed(&store, calm());
    let work = |_: Work| counted(Effects::default());
    let fails = async |_: Work| Err::<u32, _>(io::Error::other("no"));
    idem.run(key(), &1, fails).await.unwrap_err();
    idem.run(key(), &1, work).await.unwrap();
    idem.run(key(), &1, work).await.unwrap();
    idem.run(key(), &2, work).await.unwrap_err();
    let expected = [
        Decided(Decision::New),
        RELEASED,
        Decided(Decision::New),
        SEALED,
        Decided(Decision::Duplicate),
        Decided(Decision::Conflict),
    ];
    assert_eq!(recorder.events(), expected);
    assert!(recorder.sealed_after()[0].unwrap() < MINUTES);
}

#[tokio::test]
async fn recorded_failures_and_claims_of_others_are_decisions() {
    let store = Scripted::new();
    let (idem, recorder) = observed(&store, calm().with_on_error(ErrorPolicy::Record));
    let fails = async |_: Work| Err::<u32, _>(io::Error::other("no"));
    idem.run(key(), &1, fails).await.unwrap_err();
    idem.run(key(), &1, fails).await.unwrap_err();
    let failed = Event::Ended(Ending::Failed, None);
    let expected = [Decided(Decision::New), failed, Decided(Decision::Failed)];
    assert_eq!(recorder.events(), expected);

    let store = Scripted::new();
    let (idem, recorder) = observed(&store, calm());
    let _claim = other(&store, MINUTES).await;
    idem.run(key(), &1, fails).await.unwrap_err();
    assert_eq!(recorder.events(), [Decided(Decision::InFlight)]);
}

#[tokio::test]
async fn a_takeover_reports_the_time_since_the_key_was_first_seen() {
    let store = Scripted::new();
    let lease = Duration::from_millis(80);
    let _claim = other(&store, lease).await;
    let (idem, recorder) = observed(&store, calm().with_on_busy(BusyPolicy::wait(MINUTES)));
    let work = |_: Work| counted(Effects::default());
    idem.run(key(), &1, work).await.unwrap();
    until("the seal is reported", || {
        recorder.events().contains(&SEALED)
    })
    .await;
    let expected = [
        Event::WaitBegan,
        Event::WaitEnded,
        Decided(Decision::Takeover),
        SEALED,
    ];
    assert_eq!(recorder.events(), expected);
    // The other attempt's lease is part of it.
    let since = recorder.sealed_after()[0].unwrap();
    assert!(since >= lease && since < MINUTES, "{since:?}");
}

#[tokio::test]
async fn an_unknown_outcome_is_a_decision_too() {
    let store = Scripted::new();
    store.always("claim", Fault::Broken);
    let (idem, recorder) = observed(&store, calm());
    let work = |_: Work| counted(Effects::default());
    idem.run(key(), &1, work).await.unwrap_err();
    assert_eq!(recorder.events(), [Decided(Decision::Unknown)]);
}

#[tokio::test]
async fn each_repeated_call_is_reported_with_its_error() {
    let store = Scripted::new();
    for call in ["claim", "complete", "release"] {
        store.next(call, &[Fault::Down, Fault::LostAnswer]);
    }
    let (idem, recorder) = observed(&store, calm());
    let fails = async |_: Work| Err::<u32, _>(io::Error::other("no"));
    idem.run(key(), &1, fails).await.unwrap_err();
    let work = |_: Work| counted(Effects::default());
    idem.run(key(), &1, work).await.unwrap();
    let all = recorder.events();
    for call in ["claim", "complete", "release"] {
        let retries = all
            .iter()
            .filter(|event| **event == Retried(call, UNAVAILABLE));
        assert_eq!(retries.count(), 2, "{call} {all:?}");
    }
    assert_eq!(all.len(), 6 + 4, "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_another_took_is_lost_once_and_its_end_is_unsettled() {
    let store = Scripted::new();
    let (idem, recorder) = observed(&store, calm());
    let outcome = idem.run(key(), &1, async |work: Work| {
        store.release(&work.claim().unwrap()).await.unwrap();
        let _taken = other(&store, MINUTES).await;
        work.lost().await;
        Ok::<_, io::Error>(1)
    });
    outcome.await.unwrap_err();
    let expected = [
        Decided(Decision::New),
        Lost(LeaseLoss::Overtaken),
        Event::Ended(Ending::Unsettled, Some(ErrorKind::ClaimLost)),
    ];
    assert_eq!(recorder.events(), expected);
}

#[tokio::test]
async fn a_loss_that_only_the_seal_shows_is_reported() {
    let store = Scripted::new();
    let (idem, recorder) = observed(&store, calm());
    let outcome = idem.run(key(), &1, async |work: Work| {
        store.release(&work.claim().unwrap()).await.unwrap();
        let _taken = other(&store, MINUTES).await;
        Ok::<_, io::Error>(1)
    });
    outcome.await.unwrap_err();
    assert_eq!(recorder.events()[1], Lost(LeaseLoss::Overtaken));
}

#[tokio::test(start_paused = true)]
async fn a_store_away_for_a_lease_is_a_loss_once_however_often_it_is_called() {
    let store = Scripted::new();
    store.always("renew", Fault::Down);
    let (idem, recorder) = observed(&store, calm());
    let outcome = idem.run(key(), &1, async |work: Work| {
        work.lost().await;
        tokio::time::sleep(MINUTES).await;
        Ok::<_, io::Error>(1)
    });
    outcome.await.unwrap();
    let all = recorder.events();
    let count = |wanted| all.iter().filter(|event| **event == wanted).count();
    assert_eq!(count(Lost(LeaseLoss::Expired)), 1);
    assert!(count(Retried("renew", UNAVAILABLE)) > 100);
    assert_eq!(all.last(), Some(&SEALED));
}

#[tokio::test]
async fn a_process_that_stood_still_reports_its_loss() {
    let store = Scripted::new();
    let (idem, recorder) = observed(&store, calm().with_lease(Duration::from_millis(40)));
    let outcome = idem.run(key(), &1, async |_: Work| {
        std::thread::sleep(Duration::from_millis(70));
        Ok::<_, io::Error>(1)
    });
    outcome.await.unwrap();
    let expected = [Decided(Decision::New), Lost(LeaseLoss::Expired), SEALED];
    assert_eq!(recorder.events(), expected);
}

#[tokio::test]
async fn dropped_runs_end_as_the_policy_says() {
    let release = (InterruptPolicy::Release, Ending::Released);
    let record = (InterruptPolicy::Record, Ending::Failed);
    let expire = (InterruptPolicy::LetExpire, Ending::LetExpire);
    for (policy, ending) in [release, record, expire] {
        let store = Scripted::new();
        let (idem, recorder) = observed(&store, calm().with_on_cancel(policy));
        let run = tokio::spawn(async move {
            let work = async |_: Work| std::future::pending::<io::Result<()>>().await;
            idem.run(key(), &1, work).await
        });
        until("decided", || !recorder.events().is_empty()).await;
        run.abort();
        let ended = Event::Ended(ending, None);
        until("ended", || recorder.events().contains(&ended)).await;
        assert_eq!(recorder.events(), [Decided(Decision::New), ended]);
    }
}

#[tokio::test]
async fn a_wait_that_is_dropped_has_ended() {
    let store = Scripted::new();
    let claim = other(&store, MINUTES).await;
    let (idem, recorder) = observed(&store, calm().with_on_busy(BusyPolicy::wait(MINUTES)));
    let run = tokio::spawn(async move {
        let work = |_: Work| counted(Effects::default());
        idem.run(key(), &1, work).await
    });
    until("it waits", || recorder.events() == [Event::WaitBegan]).await;
    run.abort();
    until("it has gone", || recorder.events().len() == 2).await;
    assert_eq!(recorder.events(), [Event::WaitBegan, Event::WaitEnded]);
    store.release(&claim).await.unwrap();
    until_free(&store).await;
}

#[tokio::test]
async fn all_observers_get_the_same_events() {
    let store = Scripted::new();
    let (idem, first) = observed(&store, calm());
    let second = Recorder::default();
    let both = idem.clone().with_observer(second.clone());
    let work = |_: Work| counted(Effects::default());
    both.run(key(), &1, work).await.unwrap();
    assert_eq!(first.events(), second.events());
    // A clone made before keeps its own.
    idem.run(key(), &1, work).await.unwrap();
    assert_eq!((first.events().len(), second.events().len()), (3, 2));
}

#[tokio::test]
async fn a_claim_that_was_handed_over_is_measured_from_when_it_was_made() {
    let store = Scripted::new();
    let (idem, recorder) = observed(&store, calm());
    let fingerprint = Fingerprint::of(&1).unwrap();
    let handed = idem.hand_off(key(), fingerprint, Metadata::new(), MINUTES, async |_| {
        Ok::<_, io::Error>(())
    });
    let Handoff::New(claim) = handed.await.unwrap() else {
        panic!("the key was claimed before");
    };
    let pause = Duration::from_millis(60);
    tokio::time::sleep(pause).await;
    let work = |_: Work| counted(Effects::default());
    idem.resume(&claim, fingerprint, work).await.unwrap();
    until("the seal is reported", || {
        recorder.events().contains(&SEALED)
    })
    .await;
    assert!(recorder.sealed_after()[0].unwrap() >= pause);
}
