//! Runs whose result is available under a second key.

use std::io;
use std::time::Duration;

use idem_core::engine::InterruptPolicy;
use idem_core::{BoxError, ErrorKind, Idempotency, Key, Policy, RunError, Work};

use tokio::sync::Notify;

use super::support::{Deadline, Effects, Fault, Scripted, calm, counted, idem, key};

fn other() -> Key {
    Key::new("new-tenant", "operation", "request").unwrap()
}

/// Work that finds the other key and then has an effect.
async fn moves(work: Work, effects: Effects) -> Result<u32, BoxError> {
    if let Some(done) = work.add_alias(&other()).await? {
        return Ok(done.from_json()?);
    }
    Ok(counted(effects).await?)
}

async fn run(
    idem: &Idempotency,
    key: &Key,
    effects: &Effects,
) -> Result<u32, RunError<BoxError, u32>> {
    let effects = effects.clone();
    let outcome = idem.run(key, &1, |work| moves(work, effects)).await?;
    Ok(outcome.into_inner())
}

#[tokio::test]
async fn the_result_is_found_under_both_keys() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let idem = idem(&store, calm());
    for key in [key(), &other(), key()] {
        assert_eq!(run(&idem, key, &effects).await.unwrap(), 1);
    }
    assert_eq!(effects.count(), 1);
    let conflict = idem.run(&other(), &2, |_| counted(effects.clone())).await;
    assert!(
        matches!(conflict, Err(RunError::Conflict(_))),
        "{conflict:?}"
    );
}

#[tokio::test]
async fn both_keys_are_free_after_an_error() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let idem = idem(&store, calm());
    let failing = async |work: Work| {
        work.add_alias(&other()).await.unwrap();
        Err::<u32, _>(io::Error::other("not now"))
    };
    assert!(idem.run(key(), &1, failing).await.is_err());
    for key in [&other(), key()] {
        let outcome = idem.run(key, &1, |_| counted(effects.clone())).await;
        assert!(!outcome.unwrap().is_replayed());
    }
}

#[tokio::test]
async fn the_other_key_is_held_as_long_as_the_work_runs() {
    let (store, effects) = (Scripted::new(), Effects::default());
    // Long compared with the pauses of a busy machine; the work outlasts it all the same.
    let lease = Duration::from_millis(500);
    let idem = idem(&store, Policy::default().with_lease(lease));
    let slow = async |work: Work| {
        work.add_alias(&other()).await?;
        tokio::time::sleep(lease * 5 / 2).await;
        let busy = idem.run(&other(), &1, |_| counted(effects.clone())).await;
        assert!(matches!(busy, Err(RunError::InFlight(_))), "{busy:?}");
        Ok::<_, BoxError>(7)
    };
    assert_eq!(idem.run(key(), &1, slow).await.unwrap().into_inner(), 7);
    assert_eq!(run(&idem, &other(), &effects).await.unwrap(), 7);
    assert_eq!(effects.count(), 0);
}

#[tokio::test]
async fn the_next_caller_takes_the_killed_run_over_under_the_first_key() {
    for came_with in [key(), &other()] {
        taken_over_by(came_with).await;
    }
}

async fn taken_over_by(came_with: &Key) {
    let (store, effects) = (Scripted::new(), Effects::default());
    let policy = Policy::default()
        .with_lease(Duration::from_millis(200))
        .with_on_cancel(InterruptPolicy::LetExpire);
    let idem = idem(&store, policy);
    let holds = Notify::new();
    let killed = async |work: Work| {
        work.add_alias(&other()).await?;
        holds.notify_one();
        std::future::pending::<Result<u32, BoxError>>().await
    };
    tokio::select! {
        ended = idem.run(key(), &1, killed) => panic!("{ended:?}"),
        () = holds.notified() => {}
    }
    // The next caller goes on under the first key, once the killed run cannot be alive any more.
    let work = async |work: Work| {
        assert_eq!((work.key(), work.is_takeover()), (key(), true));
        moves(work, effects.clone()).await
    };
    let deadline = Deadline::in_half_a_minute();
    loop {
        match idem.run(came_with, &1, work).await {
            Err(RunError::InFlight(_)) => deadline.pause("the takeover").await,
            returned => break assert_eq!(returned.unwrap().into_inner(), 1),
        }
    }
    for key in [key(), &other()] {
        assert_eq!(run(&idem, key, &effects).await.unwrap(), 1);
    }
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn work_that_was_killed_between_its_two_seals_is_taken_over() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let policy = Policy::default().with_lease(Duration::from_millis(500));
    let idem = idem(&store, policy.with_retry_timeout(Duration::from_secs(1)));
    let sealing = async |work: Work| {
        work.add_alias(&other()).await?;
        // The other key's seal is sent first and is taken; the first key's never is.
        store.next("complete", &[Fault::LostAnswer]);
        store.always("complete", Fault::Broken);
        Ok::<u32, BoxError>(7)
    };
    let unsealed = idem.run(key(), &1, sealing).await;
    assert!(
        matches!(unsealed, Err(RunError::NotStored { .. })),
        "{unsealed:?}"
    );
    store.heal();
    assert_eq!(run(&idem, &other(), &effects).await.unwrap(), 7);
    let deadline = Deadline::in_half_a_minute();
    loop {
        match run(&idem, key(), &effects).await {
            Err(RunError::InFlight(_)) => deadline.pause("the takeover").await,
            returned => break assert_eq!(returned.unwrap(), 7),
        }
    }
    assert_eq!(effects.count(), 0);
}

#[tokio::test]
async fn a_key_that_others_use_stops_the_work() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let idem = idem(
        &store,
        Policy::default().with_lease(Duration::from_millis(500)),
    );
    let holding = async |_: Work| {
        let error = run(&idem, key(), &effects).await.unwrap_err().into_work();
        let error = error.and_then(|error| error.downcast::<idem_core::Error>().ok());
        assert_eq!(error.unwrap().kind(), ErrorKind::Contention);
        Ok::<_, io::Error>(7)
    };
    idem.run(&other(), &1, holding).await.unwrap();
    store.heal();
    let idem = idem.with_policy(calm());
    let third = Key::new("third", "operation", "request").unwrap();
    idem.run(&third, &2, |_| counted(effects.clone()))
        .await
        .unwrap();
    let conflicting = async |work: Work| work.add_alias(&third).await.map(drop);
    let error = idem
        .run(key(), &3, conflicting)
        .await
        .unwrap_err()
        .into_work();
    assert_eq!(error.unwrap().kind(), ErrorKind::InvalidInput);
}
