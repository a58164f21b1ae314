//! [`Heartbeat`]: renew leases while the work runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slab::Slab;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, sleep_until};

use super::context::in_time;
use super::lease::Lease;
use super::observe::LeaseLoss;
use crate::backoff::Backoff;
use crate::{Error, ErrorKind, Result};

/// The leases of all runs of this process.
///
/// Most runs end long before their first renewal is due, at a third of the lease, so a short run
/// should cost only an entry in a map. One task for each runtime checks all runs, and gives a task
/// of its own to each run whose renewal is near.
///
/// A renewal runs in a task, so that work that blocks its thread does not stop it where the runtime
/// has another thread.
static WATCHES: Mutex<Vec<Watch>> = Mutex::new(Vec::new());

fn watches() -> MutexGuard<'static, Vec<Watch>> {
    WATCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The runs that the task of one runtime checks.
#[derive(Debug)]
struct Watch {
    runtime: runtime::Id,
    runs: Slab<Beat>,
    /// When the task checks next.
    looks_at: Instant,
    /// Notifies the task that it has to check earlier.
    earlier: Arc<Notify>,
}

#[derive(Debug)]
enum Beat {
    /// No renewal is near.
    Waits(Run),
    /// A task renews the lease until this is dropped.
    Renews(#[expect(dead_code, reason = "its drop stops the task")] oneshot::Sender<()>),
}

#[derive(Debug)]
struct Run {
    lease: Arc<Lease>,
    third: Duration,
    /// When the first renewal is due.
    due: Instant,
}

impl Run {
    /// Returns the latest check that starts the renewals in time.
    fn looks_at(&self) -> Instant {
        earlier(self.due, self.third / 4)
    }

    /// A check starts renewals that are due before the next check, and some more. So checks are at
    /// least a quarter of a third of the lease apart, however many runs there are.
    fn is_near(&self, now: Instant) -> bool {
        self.due.saturating_duration_since(now) <= self.third / 2
    }
}

/// Renews a lease until it is dropped. A renewal that is under way then still counts.
#[derive(Debug)]
pub(super) struct Heartbeat {
    runtime: runtime::Id,
    id: usize,
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let mut watches = watches();
        let watch = watches
            .iter_mut()
            .find(|watch| watch.runtime == self.runtime);
        let beat = watch.and_then(|watch| watch.runs.try_remove(self.id));
        drop(watches);
        drop(beat);
    }
}

impl Heartbeat {
    /// Watches the lease from now on.
    pub(super) fn start(lease: &Arc<Lease>) -> Self {
        let context = &lease.context;
        let runtime = context.runtime.id();
        let third = (context.policy.lease() / 3).max(Duration::from_millis(1));
        let run = Run {
            due: earlier(lease.deadline(), third * 2),
            lease: Arc::clone(lease),
            third,
        };
        let looks_at = run.looks_at();
        let mut watches = watches();
        let known = watches.iter().position(|watch| watch.runtime == runtime);
        let number = known.unwrap_or_else(|| {
            watches.push(Watch::new(runtime, looks_at));
            watches.len() - 1
        });
        let watch = &mut watches[number];
        let id = watch.runs.insert(Beat::Waits(run));
        let is_earlier = looks_at < watch.looks_at;
        if is_earlier {
            watch.looks_at = looks_at;
            watch.earlier.notify_one();
        }
        let earlier = known.is_none().then(|| Arc::clone(&watch.earlier));
        drop(watches);
        if let Some(earlier) = &earlier {
            let watching = Watching {
                earlier: Arc::clone(earlier),
            };
            context.runtime.spawn(watching.run());
        }
        if earlier.is_some() || is_earlier {
            // A worker keeps the task that it woke or spawned last for itself, where no other
            // worker can steal it (Tokio's LIFO slot). The next spawn pushes it out of there, so
            // that work that blocks this thread does not block it.
            context.runtime.spawn(std::future::ready(()));
        }
        Self { runtime, id }
    }
}

impl Watch {
    fn new(runtime: runtime::Id, looks_at: Instant) -> Self {
        Self {
            runtime,
            runs: Slab::new(),
            looks_at,
            earlier: Arc::default(),
        }
    }

    /// Takes out the runs whose renewal is near, and returns when to check again: `None` when no
    /// run is left to wait for.
    fn look(&mut self, now: Instant) -> (Vec<Beating>, Option<Instant>) {
        let (mut near, mut next) = (Vec::new(), None);
        for (_, beat) in &mut self.runs {
            let Beat::Waits(run) = beat else { continue };
            if !run.is_near(now) {
                let looks_at = run.looks_at();
                next = Some(next.map_or(looks_at, |next: Instant| next.min(looks_at)));
                continue;
            }
            let (stop, stopped) = oneshot::channel();
            if let Beat::Waits(run) = std::mem::replace(beat, Beat::Renews(stop)) {
                near.push(Beating {
                    lease: run.lease,
                    third: run.third,
                    stopped,
                });
            }
        }
        (near, next)
    }
}

/// The task of one runtime. It ends when no run waited between two of its checks, and with the
/// runtime.
struct Watching {
    /// The watch of this task is the one with the same notification.
    earlier: Arc<Notify>,
}

/// How long the task waits for the next run before it ends.
const IDLE: Duration = Duration::from_secs(1);

impl Watching {
    fn looks_at(&self, watch: &Watch) -> bool {
        Arc::ptr_eq(&watch.earlier, &self.earlier)
    }

    async fn run(self) {
        let mut was_idle = false;
        while let Some(looks_at) = self.look(&mut was_idle) {
            tokio::select! {
                () = sleep_until(looks_at) => {}
                () = self.earlier.notified() => {}
            }
        }
    }

    /// Checks all runs; returns when to check again, `None` to end.
    fn look(&self, was_idle: &mut bool) -> Option<Instant> {
        let mut watches = watches();
        let number = watches.iter().position(|watch| self.looks_at(watch))?;
        let watch = &mut watches[number];
        let now = Instant::now();
        let (near, next) = watch.look(now);
        if next.is_none() && near.is_empty() && *was_idle && watch.runs.is_empty() {
            watches.swap_remove(number);
            return None;
        }
        *was_idle = next.is_none();
        let looks_at = next.unwrap_or(now + IDLE);
        watch.looks_at = looks_at;
        drop(watches);
        for beating in near {
            let observers = beating.lease.context.observers.clone();
            tokio::spawn(observers.around(beating.run()));
        }
        Some(looks_at)
    }
}

/// A runtime that ends takes the tasks of its runs with it, so no run is left to watch.
impl Drop for Watching {
    fn drop(&mut self) {
        let mut watches = watches();
        let number = watches.iter().position(|watch| self.looks_at(watch));
        let watch = number.map(|number| watches.swap_remove(number));
        // The runs are dropped after the lock is free.
        drop(watches);
        drop(watch);
    }
}

struct Beating {
    lease: Arc<Lease>,
    third: Duration,
    stopped: oneshot::Receiver<()>,
}

impl Beating {
    /// The renewal is repeated until the work ends, also when the claim can no longer be assumed to
    /// be held and the work was notified: if no other attempt has acquired the key meanwhile, work
    /// that cannot be stopped is protected again.
    async fn run(mut self) {
        let mut next = earlier(self.lease.deadline(), self.third * 2);
        while self.pause_until(next).await {
            self.lease.context.report_expiry(&self.lease);
            let mut backoff = Backoff::new(Duration::MAX);
            let sent = loop {
                let sent = Instant::now();
                match self.renew(sent).await {
                    Ok(()) => break sent,
                    Err(error) if is_final(error.kind()) => {
                        if error.is_claim_lost() && !self.is_stopped() {
                            let context = &self.lease.context;
                            context.report_loss(&self.lease, LeaseLoss::Overtaken);
                        }
                        return self.lease.end();
                    }
                    Err(error) => self.renews_again(&error),
                }
                tokio::select! {
                    biased;
                    _ = &mut self.stopped => return,
                    _ = backoff.pause_at_most(self.third) => {}
                }
            };
            next = sent + self.third;
        }
    }

    /// Returns whether no caller needs the answer that comes now.
    fn is_stopped(&mut self) -> bool {
        !matches!(self.stopped.try_recv(), Err(TryRecvError::Empty))
    }

    fn renews_again(&self, error: &Error) {
        let context = &self.lease.context;
        context.report_expiry(&self.lease);
        context.observers.retried(self.lease.key(), "renew", error);
    }

    /// Returns `false` when the heartbeat has to stop.
    async fn pause_until(&mut self, next: Instant) -> bool {
        tokio::select! {
            biased;
            _ = &mut self.stopped => false,
            () = sleep_until(next) => true,
        }
    }

    async fn renew(&self, sent: Instant) -> Result<()> {
        let claim = self.lease.claim();
        let context = &self.lease.context;
        let call = context.store().renew(&claim, context.policy.lease());
        let renewed = in_time(self.third, "renew", call).await?;
        self.lease.extend(renewed, sent);
        Ok(())
    }
}

fn earlier(instant: Instant, by: Duration) -> Instant {
    instant.checked_sub(by).unwrap_or(instant)
}

/// Returns whether a repetition is useless.
fn is_final(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ClaimLost | ErrorKind::AlreadySealed | ErrorKind::InvalidInput
    )
}
