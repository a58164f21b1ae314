//! Claims that travel to another process, which does the work.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use idem_core::engine::Handoff;
use idem_core::{Claim, ErrorKind, Fingerprint, Idempotency, Metadata, Outcome, Policy, RunError};
use tokio::time::sleep;

use super::support::{Deadline, Effects, Fault, MINUTES, Scripted, calm, counted, idem, key};

fn request() -> Fingerprint {
    Fingerprint::raw("build")
}

fn job(id: &str) -> Metadata {
    Metadata::new().with("job", id)
}

type Handed = Result<Handoff, RunError<io::Error, ()>>;

async fn hands_over(idem: &Idempotency, id: &str, wait: Duration) -> Handed {
    let deliver = async |_: Claim| Ok(());
    idem.hand_off(key(), request(), job(id), wait, deliver)
        .await
}

fn new_claim(returned: Handed) -> Claim {
    match returned {
        Ok(Handoff::New(claim)) => claim,
        returned => panic!("{returned:?}"),
    }
}

#[tokio::test]
async fn duplicates_get_the_job_until_its_work_is_sealed() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let idem = idem(&store, calm());
    let delivered = Mutex::new(None);
    let deliver = async |claim: Claim| {
        *delivered.lock().unwrap() = Some(claim);
        Ok::<_, io::Error>(())
    };
    let returned = idem
        .hand_off(key(), request(), job("41"), MINUTES, deliver)
        .await;
    let claim = new_claim(returned);
    assert_eq!(delivered.into_inner().unwrap().as_ref(), Some(&claim));
    let Err(RunError::InFlight(found)) = hands_over(&idem, "42", MINUTES).await else {
        panic!("not in flight");
    };
    assert_eq!(found.info.metadata, job("41"));
    for expected in [Outcome::Fresh(1), Outcome::Fresh(1)] {
        let run = idem.resume(&claim, request(), |_| counted(effects.clone()));
        let value = run.await.unwrap();
        assert_eq!(value.into_inner(), expected.into_inner());
    }
    assert_eq!(effects.count(), 1, "a message that comes twice is replayed");
    let done = hands_over(&idem, "43", MINUTES).await.unwrap();
    assert!(matches!(done, Handoff::Done(_)), "{done:?}");
}

#[tokio::test]
async fn a_failed_delivery_leaves_the_key_free() {
    let idem = idem(&Scripted::new(), calm());
    let deliver = async |_: Claim| Err(io::Error::other("the queue is away"));
    let returned = idem
        .hand_off(key(), request(), job("41"), MINUTES, deliver)
        .await;
    assert!(matches!(returned, Err(RunError::Work(_))), "{returned:?}");
    let returned = hands_over(&idem, "42", MINUTES).await;
    assert!(matches!(returned, Ok(Handoff::New(_))), "{returned:?}");
}

#[tokio::test]
async fn a_message_may_wait_for_longer_than_the_lease() {
    let (store, lease) = (Scripted::new(), Duration::from_millis(20));
    let idem = idem(&store, Policy::default().with_lease(lease));
    let claim = new_claim(hands_over(&idem, "41", MINUTES).await);
    sleep(lease * 3).await;
    let busy = hands_over(&idem, "42", MINUTES).await;
    assert!(matches!(busy, Err(RunError::InFlight(_))), "{busy:?}");
    let run = idem.resume(&claim, request(), |_| counted(Effects::default()));
    assert_eq!(run.await.unwrap(), Outcome::Fresh(1));
}

#[tokio::test]
async fn a_message_that_waited_for_longer_than_it_may_finds_its_claim_lost() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let brief = Policy::default().with_lease(Duration::from_millis(20));
    let idem = idem(&store, brief);
    let old = new_claim(hands_over(&idem, "41", Duration::from_millis(60)).await);
    let deadline = Deadline::in_half_a_minute();
    let new = loop {
        match hands_over(&idem, "42", MINUTES).await {
            Err(RunError::InFlight(_)) => deadline.pause("the end of the wait").await,
            returned => break new_claim(returned),
        }
    };
    assert!(new.token() > old.token());
    let late = idem.resume(&old, request(), |_| counted(effects.clone()));
    let Err(RunError::Store(error)) = late.await else {
        panic!("it ran");
    };
    assert_eq!(error.kind(), ErrorKind::ClaimLost);
    let run = idem.resume(&new, request(), |_| counted(effects.clone()));
    assert_eq!(run.await.unwrap(), Outcome::Fresh(1));
    // Nor does it get the result of the other one.
    let late = idem.resume(&old, request(), |_| counted(effects.clone()));
    assert!(matches!(late.await, Err(RunError::Store(_))));
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn work_that_fails_leaves_the_key_free() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let idem = idem(&store, calm());
    let claim = new_claim(hands_over(&idem, "41", MINUTES).await);
    let failing = idem.resume(&claim, request(), async |_| {
        Err::<u32, _>(io::Error::other("the build failed"))
    });
    assert!(matches!(failing.await, Err(RunError::Work(_))));
    let claim = new_claim(hands_over(&idem, "42", MINUTES).await);
    let run = idem.resume(&claim, request(), |_| counted(effects.clone()));
    assert!(run.await.is_ok());
}

#[tokio::test]
async fn a_call_of_a_store_out_of_reach_is_repeated() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let idem = idem(&store, calm());
    store.next("renew", &[Fault::Down, Fault::LostAnswer]);
    let claim = new_claim(hands_over(&idem, "41", MINUTES).await);
    store.next("renew", &[Fault::LostAnswer, Fault::Down]);
    let run = idem.resume(&claim, request(), |_| counted(effects.clone()));
    assert_eq!(run.await.unwrap(), Outcome::Fresh(1));
}

#[tokio::test]
async fn a_process_that_ends_before_it_delivered_gives_the_key_back() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let deliver = async |_: Claim| std::future::pending::<io::Result<()>>().await;
    let handing = idem.hand_off(key(), request(), job("41"), MINUTES, deliver);
    assert!(
        tokio::time::timeout(Duration::from_millis(20), handing)
            .await
            .is_err()
    );
    super::support::until("free", || store.peek().is_none()).await;
}

#[tokio::test]
async fn a_wait_that_no_store_can_keep_is_refused_before_anything_is_claimed() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    for wait in [Duration::ZERO, Duration::MAX] {
        let error = hands_over(&idem, "41", wait).await.unwrap_err();
        let source = error.store_error().unwrap();
        assert_eq!(source.kind(), ErrorKind::InvalidInput);
        assert!(source.to_string().contains("the wait is"), "{source}");
    }
    assert_eq!((store.calls("claim"), store.calls("renew")), (0, 0));
}
