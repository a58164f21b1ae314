//! Waiting callers are woken, and manage without a notification.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::backend::{ChangeNotifier, Subscription};
use idem_core::{
    BusyPolicy, Claim, ClaimRequest, Effect, Error, ErrorKind, Fingerprint, IdempotencyStore, Key,
    Outcome, Response, Result, RunError, async_trait,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::support::{Effects, MINUTES, Scripted, calm, counted, idem, key};

/// The behaviour of `listen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListenBehaviour {
    Subscribes,
    Refuses,
    NeverAnswers,
    /// The result is sealed after the first claim and before the listening begins.
    ComesLate,
}

#[derive(Debug)]
struct NotifierState {
    behaviour: ListenBehaviour,
    changes: watch::Sender<u64>,
    listening: AtomicU32,
    late: Mutex<Option<(Scripted, Claim)>>,
}

#[derive(Debug, Clone)]
struct Notifier(Arc<NotifierState>);

impl Notifier {
    fn new(behaviour: ListenBehaviour) -> Self {
        Self(Arc::new(NotifierState {
            behaviour,
            changes: watch::Sender::new(0),
            listening: AtomicU32::new(0),
            late: Mutex::new(None),
        }))
    }

    fn notify(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    fn listening(&self) -> u32 {
        self.0.listening.load(Ordering::SeqCst)
    }
}

struct ListenerGuard(Notifier);

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        self.0.0.listening.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ChangeNotifier for Notifier {
    async fn listen(&self, _key: &Key) -> Result<Subscription> {
        match self.0.behaviour {
            ListenBehaviour::Subscribes => {}
            ListenBehaviour::Refuses => {
                let message = "nothing to listen to";
                return Err(Error::new(ErrorKind::Unavailable, Effect::None, message));
            }
            ListenBehaviour::NeverAnswers => std::future::pending().await,
            ListenBehaviour::ComesLate => {
                let late = self.0.late.lock().unwrap().take();
                if let Some((store, claim)) = late {
                    seal(&store, &claim).await;
                }
            }
        }
        self.0.listening.fetch_add(1, Ordering::SeqCst);
        Ok(Subscription::new(self.0.changes.subscribe()).with_guard(ListenerGuard(self.clone())))
    }
}

type Run = JoinHandle<Result<Outcome<u32>, RunError<std::io::Error, u32>>>;

async fn held(store: &Scripted) -> Claim {
    let request =
        ClaimRequest::new(key().clone(), Fingerprint::of(&1).unwrap()).with_lease(MINUTES);
    store.claim(&request).await.unwrap().acquired().unwrap()
}

async fn seal(store: &Scripted, claim: &Claim) {
    let response = Response::json(&42).unwrap();
    store.complete(claim, &response, MINUTES).await.unwrap();
}

/// Starts a run that waits for another's result for this long.
fn waits(store: &Scripted, notifier: &Notifier, limit: Duration) -> Run {
    let policy = calm().with_on_busy(BusyPolicy::wait(limit));
    let idem = idem(store, policy).with_notifier(notifier.clone());
    tokio::spawn(async move { idem.run(key(), &1, |_| counted(Effects::default())).await })
}

/// Waits until the pauses between polls have reached their longest.
async fn long_pauses() {
    tokio::time::sleep(Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn a_notified_caller_polls_at_once() {
    let (store, notifier) = (Scripted::new(), Notifier::new(ListenBehaviour::Subscribes));
    let claim = held(&store).await;
    let run = waits(&store, &notifier, MINUTES);
    long_pauses().await;
    assert_eq!(notifier.listening(), 1);
    seal(&store, &claim).await;
    let returned = Instant::now();
    notifier.notify();
    assert_eq!(run.await.unwrap().unwrap().into_replayed(), Some(42));
    assert!(
        returned.elapsed() < Duration::from_millis(2),
        "{:?}",
        returned.elapsed()
    );
    assert_eq!(notifier.listening(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_hint_costs_a_poll_and_nothing_else() {
    let (store, notifier) = (Scripted::new(), Notifier::new(ListenBehaviour::Subscribes));
    let claim = held(&store).await;
    let run = waits(&store, &notifier, MINUTES);
    long_pauses().await;
    seal(&store, &claim).await;
    let sealed = Instant::now();
    assert_eq!(run.await.unwrap().unwrap().into_replayed(), Some(42));
    assert!(
        sealed.elapsed() <= Duration::from_secs(1),
        "{:?}",
        sealed.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_record_sealed_before_the_listening_begins_is_found_at_once() {
    let (store, notifier) = (Scripted::new(), Notifier::new(ListenBehaviour::ComesLate));
    let claim = held(&store).await;
    *notifier.0.late.lock().unwrap() = Some((store.clone(), claim));
    let started = Instant::now();
    let outcome = waits(&store, &notifier, MINUTES).await.unwrap();
    assert_eq!(outcome.unwrap().into_replayed(), Some(42));
    assert!(
        started.elapsed() < Duration::from_millis(2),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_cannot_listen_polls() {
    for behaviour in [ListenBehaviour::Refuses, ListenBehaviour::NeverAnswers] {
        let (store, notifier) = (Scripted::new(), Notifier::new(behaviour));
        let claim = held(&store).await;
        let run = waits(&store, &notifier, MINUTES);
        long_pauses().await;
        seal(&store, &claim).await;
        assert_eq!(
            run.await.unwrap().unwrap().into_replayed(),
            Some(42),
            "{behaviour:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn hints_without_end_do_not_keep_a_caller_beyond_its_limit() {
    let (store, notifier) = (Scripted::new(), Notifier::new(ListenBehaviour::Subscribes));
    let _claim = held(&store).await;
    let notifying = tokio::spawn({
        let notifier = notifier.clone();
        async move {
            loop {
                notifier.notify();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let limit = Duration::from_secs(3);
    let started = Instant::now();
    let outcome = waits(&store, &notifier, limit).await.unwrap();
    assert!(matches!(outcome, Err(RunError::InFlight(_))), "{outcome:?}");
    assert!(
        started.elapsed() <= limit + Duration::from_millis(10),
        "{:?}",
        started.elapsed()
    );
    notifying.abort();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_listens_no_longer() {
    let (store, notifier) = (Scripted::new(), Notifier::new(ListenBehaviour::Subscribes));
    let _claim = held(&store).await;
    let run = waits(&store, &notifier, MINUTES);
    long_pauses().await;
    assert_eq!(notifier.listening(), 1);
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(notifier.listening(), 0);
}
