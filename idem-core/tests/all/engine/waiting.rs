//! Runs of one process that wait for each other.

use std::io;
use std::time::Duration;

use idem_core::{BusyPolicy, Idempotency, Outcome, RunError, Work};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::support::{Effects, MINUTES, Scripted, calm, counted, idem, key};

type Run = JoinHandle<Result<Outcome<u32>, RunError<io::Error, u32>>>;

fn waiting_idem(store: &Scripted) -> Idempotency {
    idem(store, calm().with_on_busy(BusyPolicy::wait(MINUTES)))
}

/// Starts work that ends on a signal, with this result.
fn held(idem: &Idempotency, end: oneshot::Receiver<Result<u32, io::Error>>) -> Run {
    let idem = idem.clone();
    let work = async move |_: Work| end.await.expect("the result arrives");
    tokio::spawn(async move { idem.run(key(), &1, work).await })
}

fn waits(idem: &Idempotency, effects: &Effects) -> Run {
    let (idem, effects) = (idem.clone(), effects.clone());
    tokio::spawn(async move { idem.run(key(), &1, |_| counted(effects)).await })
}

/// Waits until the pauses between polls have reached their longest.
async fn long_pauses() {
    tokio::time::sleep(Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_of_this_process_is_notified_at_once() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let idem = waiting_idem(&store);
    let (end, ended) = oneshot::channel();
    let first = held(&idem, ended);
    tokio::task::yield_now().await;
    let second = waits(&idem, &effects);
    long_pauses().await;
    let returned = Instant::now();
    end.send(Ok(42)).unwrap();
    assert_eq!(second.await.unwrap().unwrap().into_replayed(), Some(42));
    assert!(
        returned.elapsed() < Duration::from_millis(2),
        "{:?}",
        returned.elapsed()
    );
    assert_eq!(first.await.unwrap().unwrap(), Outcome::Fresh(42));
    assert_eq!(effects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_released_key_is_notified_at_once() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let idem = waiting_idem(&store);
    let (end, ended) = oneshot::channel();
    let first = held(&idem, ended);
    tokio::task::yield_now().await;
    let second = waits(&idem, &effects);
    long_pauses().await;
    let returned = Instant::now();
    end.send(Err(io::Error::other("not now"))).unwrap();
    assert!(!second.await.unwrap().unwrap().is_replayed());
    assert!(
        returned.elapsed() < Duration::from_millis(2),
        "{:?}",
        returned.elapsed()
    );
    assert!(first.await.unwrap().is_err());
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_waiter_too_many_is_refused_and_a_slot_is_free_again() {
    let (store, effects) = (Scripted::new(), Effects::default());
    let idem = waiting_idem(&store).with_max_waiters(2);
    let (end, ended) = oneshot::channel();
    let first = held(&idem, ended);
    tokio::task::yield_now().await;
    let [second, third] = [waits(&idem, &effects), waits(&idem, &effects)];
    long_pauses().await;
    let refused = waits(&idem, &effects).await.unwrap();
    assert!(matches!(refused, Err(RunError::InFlight(_))), "{refused:?}");
    third.abort();
    assert!(third.await.is_err());
    let fourth = waits(&idem, &effects);
    long_pauses().await;
    assert!(!fourth.is_finished(), "the place is not free again");
    end.send(Ok(42)).unwrap();
    for run in [second, fourth] {
        assert_eq!(run.await.unwrap().unwrap().into_replayed(), Some(42));
    }
    assert!(first.await.unwrap().is_ok());
}
