//! [`Lease`]: a claim that a run holds.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::context::Context;
use super::ending::Ending;
use crate::backend::check;
use crate::{Claim, ClaimRequest, Fingerprint, Key, Response, Result};

/// A claim with the instant, on this process's monotonic clock, until which it is surely held. The
/// run, its work and its heartbeat share it.
///
/// That instant is counted from before the request was sent, so it is never later than the end that
/// the store keeps. No task has to run to notice the end: each check compares it with the clock, so
/// a process that was stopped for a while knows at its first check.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) context: Context,
    /// The fingerprint of the request that the claim was granted to.
    pub(super) fingerprint: Fingerprint,
    key: Key,
    held: Mutex<Held>,
    /// Lost or given up; never taken back.
    over: AtomicBool,
    /// Wakes the tasks that wait for that.
    ended: Notify,
    /// When the claim was sent.
    since: Instant,
    /// Whether it was claimed before, elsewhere.
    is_handed_over: AtomicBool,
    /// Whether it runs out after an error of the work.
    expires: AtomicBool,
    /// Whether observers know that it was lost.
    loss_is_told: AtomicBool,
    followers: Mutex<Vec<Box<dyn Follower>>>,
    /// The result that the work has committed together with its rows.
    sealed: OnceLock<Response>,
    /// Whether a commit of the work is under way, or may have taken effect.
    commits: AtomicBool,
}

/// A commit of the work. When it is dropped, another commit may begin, unless this one may have
/// taken effect.
pub(super) struct Commit<'l> {
    commits: &'l AtomicBool,
    pub(super) may_count: bool,
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        self.commits.store(self.may_count, Ordering::Release);
    }
}

/// A claim under another key of the same run, which ends as the run's own does.
#[async_trait]
pub(super) trait Follower: Debug + Send + Sync {
    /// Sets how it ends from now on, also if it is dropped.
    fn set_on_drop(&mut self, ending: Ending);

    /// Ends it so.
    async fn settle(self: Box<Self>) -> Result<()>;
}

#[derive(Debug)]
struct Held {
    claim: Claim,
    deadline: Instant,
}

impl Lease {
    /// Holds a claim that was granted to a request sent at `sent`.
    pub(super) fn new(
        context: Context,
        request: &ClaimRequest,
        claim: Claim,
        sent: Instant,
    ) -> Self {
        let deadline = deadline(&claim, sent);
        Self {
            context,
            fingerprint: *request.fingerprint(),
            key: claim.key().clone(),
            held: Mutex::new(Held { claim, deadline }),
            over: AtomicBool::new(false),
            ended: Notify::new(),
            since: sent,
            is_handed_over: AtomicBool::new(false),
            expires: AtomicBool::new(false),
            loss_is_told: AtomicBool::new(false),
            followers: Mutex::default(),
            sealed: OnceLock::new(),
            commits: AtomicBool::new(false),
        }
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Box<dyn Follower>>> {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets another claim of the run end as this one does.
    pub(super) fn add_follower(&self, follower: impl Follower + 'static) {
        self.followers().push(Box::new(follower));
    }

    /// Takes the other claims, to end as this one does.
    pub(super) fn take_followers(&self, ending: &Ending) -> Vec<Box<dyn Follower>> {
        let mut taken = std::mem::take(&mut *self.followers());
        for follower in &mut taken {
            follower.set_on_drop(ending.of_followers());
        }
        taken
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn claim(&self) -> Claim {
        self.held().claim.clone()
    }

    /// Reads what does not need a copy of the claim.
    pub(super) fn with_claim<T>(&self, read: impl FnOnce(&Claim) -> T) -> T {
        read(&self.held().claim)
    }

    /// Marks it as claimed before, elsewhere.
    pub(super) fn set_handed_over(&self) {
        self.is_handed_over.store(true, Ordering::Relaxed);
    }

    /// Lets it run out after an error of the work.
    pub(super) fn let_expire(&self) {
        self.expires.store(true, Ordering::Relaxed);
    }

    pub(super) fn expires(&self) -> bool {
        self.expires.load(Ordering::Relaxed)
    }

    /// Returns when the key was first seen, if that was here.
    pub(super) fn first_seen(&self) -> Option<Instant> {
        let is_first = self.with_claim(Claim::attempts) == 1;
        (is_first && !self.is_handed_over.load(Ordering::Relaxed)).then_some(self.since)
    }

    /// Returns whether this is the first call.
    pub(super) fn is_first_loss(&self) -> bool {
        !self.loss_is_told.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the lease is over by the clock, whatever was reported of it.
    pub(super) fn has_passed(&self) -> bool {
        Instant::now() >= self.deadline()
    }

    pub(super) fn deadline(&self) -> Instant {
        self.held().deadline
    }

    /// Records a renewal that was sent at `sent`.
    pub(super) fn extend(&self, claim: Claim, sent: Instant) {
        let deadline = deadline(&claim, sent);
        let mut held = self.held();
        if deadline > held.deadline {
            *held = Held { claim, deadline };
        }
    }

    /// Marks the claim as no longer held, or no longer needed.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.ended.notify_waiters();
    }

    /// Begins a commit of the work. `None` beside another commit, and after one that may have taken
    /// effect: a store accepts the same result twice, and would commit the rows twice with it.
    pub(super) fn begin_commit(&self) -> Option<Commit<'_>> {
        let commits = &self.commits;
        (!commits.swap(true, Ordering::AcqRel)).then_some(Commit {
            commits,
            may_count: false,
        })
    }

    /// Marks the claim as sealed by the work, with this result.
    pub(super) fn set_sealed(&self, response: Response) {
        // The engine refuses a second commit, so the claim is sealed once.
        let _ = self.sealed.set(response);
        self.end();
    }

    /// Returns the result that the work has sealed.
    pub(super) fn sealed(&self) -> Option<&Response> {
        self.sealed.get()
    }

    /// Returns whether the claim can no longer be assumed to be held. Once true, it stays true.
    pub(super) fn is_over(&self) -> bool {
        if self.over.load(Ordering::Acquire) {
            return true;
        }
        let passed = Instant::now() >= self.deadline();
        if passed {
            self.end();
        }
        passed
    }

    /// Waits until [`is_over`](Self::is_over).
    pub(super) async fn over(&self) {
        loop {
            // An end from here on wakes it, so none falls between the check and the wait.
            let ended = self.ended.notified();
            if self.is_over() {
                return;
            }
            let deadline = self.deadline();
            tokio::select! {
                () = ended => {}
                () = sleep_until(deadline) => {}
            }
        }
    }
}

fn deadline(claim: &Claim, sent: Instant) -> Instant {
    check::deadline_from(sent, claim.lease_granted())
}
