//! Runs that are dropped, and work that panics.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use idem_core::engine::InterruptPolicy;
use idem_core::{BusyPolicy, Failure, IdempotencyStore, Policy, Record, StalePolicy, Work};

use super::support::{
    Deadline, Effects, Fault, MINUTES, Scripted, calm, counted, idem, key, until, until_failed,
    until_free,
};

/// Polls at most this often, each time that it is woken; returns whether it ended.
async fn polled(mut future: Pin<&mut impl Future>, polls: u32) -> bool {
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Runs until the work has begun, which its claim shows.
async fn begun<T: Debug>(store: &Scripted, run: Pin<&mut impl Future<Output = T>>) {
    tokio::select! {
        answer = run => panic!("the work never ends: {answer:?}"),
        () = until("begun", || store.peek().is_some()) => {}
    }
}

/// How long the other tasks go on between the last poll of a run and its drop.
const LAGS: [u32; 4] = [0, 1, 3, 20];

/// What the work of a dropped run did.
#[derive(Debug, Default, Clone)]
struct Steps {
    begun: Effects,
    ended: Effects,
}

impl Steps {
    async fn work(self, _: Work) -> Result<u32, io::Error> {
        self.begun.happen();
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        Ok(self.ended.happen())
    }
}

async fn until_settled(store: &Scripted) -> Option<Record> {
    let mut last = None;
    until("the key is settled", || {
        last = store.peek();
        !matches!(last, Some(Record::InFlight(_)))
    })
    .await;
    last
}

/// Drops a run after 0, 1, 2, … polls until it ends by itself; checks each with what it left
/// behind.
async fn drop_after_every_poll(
    policy: Policy,
    faults: &[(&'static str, Fault)],
    check: impl AsyncFn(&Scripted, &Steps),
) {
    let mut polls = 0;
    let mut ended = false;
    while !ended {
        for lag in LAGS {
            let (store, steps) = (Scripted::new(), Steps::default());
            for (operation, fault) in faults {
                store.next(operation, &[*fault]);
            }
            let idem = idem(&store, policy.clone());
            {
                let mut run = pin!(idem.run(key(), &1, |work| steps.clone().work(work)));
                ended = polled(run.as_mut(), polls).await;
                for _ in 0..lag {
                    tokio::task::yield_now().await;
                }
            }
            check(&store, &steps).await;
            assert!(steps.begun.count() <= 1);
            assert!(!ended || steps.ended.count() == 1);
        }
        polls += 1;
    }
    assert!(polls > 5, "{polls}");
}

/// The answers to the claim, the seal and the release are lost, each and together.
const FAULTS: [&[(&str, Fault)]; 4] = [
    &[],
    &[("claim", Fault::LostAnswer)],
    &[
        ("complete", Fault::LostAnswer),
        ("release", Fault::LostAnswer),
    ],
    &[
        ("claim", Fault::Down),
        ("complete", Fault::Down),
        ("release", Fault::Down),
    ],
];

#[tokio::test]
async fn a_dropped_run_is_sealed_if_the_work_has_ended_and_released_otherwise() {
    for faults in FAULTS {
        drop_after_every_poll(calm(), faults, async |store, steps| {
            let record = until_settled(store).await;
            let expected = if steps.ended.count() == 1 {
                assert!(matches!(record, Some(Record::Completed(_))), "{record:?}");
                Some(1)
            } else {
                assert!(record.is_none(), "{record:?}");
                None
            };
            // A claim that was under way may yet come and go.
            let waiting = calm().with_on_busy(BusyPolicy::wait(MINUTES));
            let idem = idem(store, waiting);
            let again = idem.run(key(), &1, |_| counted(steps.ended.clone())).await;
            assert_eq!(again.unwrap().into_replayed(), expected);
            assert_eq!(steps.ended.count(), 1);
        })
        .await;
    }
}

#[tokio::test]
async fn a_dropped_run_that_must_not_be_repeated_is_recorded_once_begun() {
    let policy = Policy::at_most_once();
    for faults in FAULTS {
        drop_after_every_poll(policy.clone(), faults, async |store, steps| {
            match (
                until_settled(store).await,
                steps.begun.count(),
                steps.ended.count(),
            ) {
                (None, 0, 0) | (Some(Record::Completed(_)), 1, 1) => {}
                (Some(Record::Failed(failed)), 1, 0) => {
                    assert_eq!(failed.failure.code(), Failure::CANCELLED);
                }
                other => panic!("{other:?}"),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_dropped_run_whose_claim_is_left_to_expire_is_taken_over_after_its_lease() {
    let policy = Policy::default()
        .with_lease(Duration::from_millis(40))
        .with_on_cancel(InterruptPolicy::LetExpire);
    drop_after_every_poll(policy.clone(), &[], async |store, steps| {
        let sealed = steps.ended.count() == 1;
        let idem = idem(store, policy.clone());
        let deadline = Deadline::in_half_a_minute();
        let value = loop {
            let run = idem.run(key(), &1, |_| counted(steps.ended.clone()));
            match run.await.ok() {
                Some(value) => break value,
                None => deadline.pause("the takeover").await,
            }
        };
        let expected = sealed.then_some(1);
        assert_eq!(value.into_replayed(), expected);
    })
    .await;
}

#[tokio::test]
async fn the_work_is_dropped_before_its_key_is_free() {
    struct Slow(Scripted);
    impl Drop for Slow {
        fn drop(&mut self) {
            assert_eq!(self.0.calls("release"), 0);
        }
    }
    let store = Scripted::new();
    let idem = idem(&store, calm());
    {
        let mut run = pin!(idem.run(key(), &1, async |_: Work| {
            let _guard = Slow(store.clone());
            std::future::pending::<Result<(), io::Error>>().await
        }));
        begun(&store, run.as_mut()).await;
    }
    until_free(&store).await;
    assert_eq!(store.calls("release"), 1);
}

#[tokio::test]
async fn children_of_dropped_work_see_the_lost_claim() {
    let store = Scripted::new();
    let (send, receive) = tokio::sync::oneshot::channel();
    let idem = idem(&store, calm());
    {
        let mut run = pin!(idem.run(key(), &1, async |work: Work| {
            let _ = send.send(work);
            std::future::pending::<Result<(), io::Error>>().await
        }));
        begun(&store, run.as_mut()).await;
    }
    let work = receive.await.unwrap();
    assert!(work.is_lost());
    work.lost().await;
}

#[test]
fn a_run_dropped_outside_its_runtime_is_released_by_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let store = Scripted::new();
    let idem = idem(&store, calm());
    {
        let mut run = pin!(idem.run(key(), &1, async |_: Work| {
            std::future::pending::<Result<(), io::Error>>().await
        }));
        runtime.block_on(async {
            begun(&store, run.as_mut()).await;
        });
    }
    runtime.block_on(until_free(&store));
}

#[test]
fn the_claim_of_a_run_dropped_after_its_runtime_expires() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let store = Scripted::new();
    let idem = idem(&store, calm().with_lease(Duration::from_millis(30)));
    {
        let mut run = pin!(idem.run(key(), &1, async |_: Work| {
            std::future::pending::<Result<(), io::Error>>().await
        }));
        runtime.block_on(begun(&store, run.as_mut()));
        drop(runtime);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(until("stale", || {
        let record = store.peek();
        matches!(record, Some(Record::InFlight(found)) if found.is_stale())
    }));
}

async fn panics(store: &Scripted, policy: Policy) -> String {
    let idem = idem(store, policy);
    let run = tokio::spawn(async move {
        idem.run(key(), &1, async |_: Work| {
            tokio::task::yield_now().await;
            if true {
                panic!("out of luck");
            }
            Ok::<(), io::Error>(())
        })
        .await
    });
    let panic = run.await.unwrap_err().into_panic();
    (*panic.downcast::<&str>().unwrap()).to_owned()
}

#[tokio::test]
async fn work_that_panics_is_released_and_the_panic_goes_on() {
    let store = Scripted::new();
    assert_eq!(panics(&store, calm()).await, "out of luck");
    // Released before the panic went on.
    assert!(store.peek().is_none());
}

#[tokio::test]
async fn work_that_panics_is_recorded_where_it_must_not_be_repeated() {
    let store = Scripted::new();
    assert_eq!(panics(&store, Policy::at_most_once()).await, "out of luck");
    assert_eq!(until_failed(&store).await, Failure::PANICKED);
}

#[tokio::test]
async fn a_claim_left_by_a_panic_expires() {
    let store = Scripted::new();
    let policy = Policy::default()
        .with_lease(Duration::from_millis(30))
        .with_on_panic(InterruptPolicy::LetExpire)
        .with_on_stale(StalePolicy::Fail);
    assert_eq!(panics(&store, policy).await, "out of luck");
    let record = store.peek();
    assert!(matches!(record, Some(Record::InFlight(_))), "{record:?}");
    let deadline = Deadline::in_half_a_minute();
    while store.fail_abandoned(1).await.unwrap() == 0 {
        deadline.pause("the end of the lease").await;
    }
    assert_eq!(until_failed(&store).await, Failure::ABANDONED);
}

#[tokio::test]
async fn a_closure_that_panics_before_its_future_is_released_too() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let run = tokio::spawn(async move {
        idem.run(
            key(),
            &1,
            |_: Work| -> std::future::Ready<Result<(), io::Error>> { panic!("out of luck") },
        )
        .await
    });
    assert!(run.await.unwrap_err().is_panic());
    assert!(store.peek().is_none());
}

#[tokio::test]
async fn a_value_whose_form_panics_is_never_released() {
    #[derive(Debug, serde::Deserialize)]
    struct Bomb;
    impl serde::Serialize for Bomb {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("out of luck")
        }
    }
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let run = tokio::spawn(async move {
        idem.run(key(), &1, async |_: Work| Ok::<_, io::Error>(Bomb))
            .await
    });
    assert!(run.await.unwrap_err().is_panic());
    assert_eq!(until_failed(&store).await, Failure::NOT_STORED);
}
