//! Repeats a claim until there is a decision.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::BusyPolicy;
use super::context::{Context, Doubt, in_time};
use super::held::Held;
use super::observe::Decision;
use crate::backend::{MAX_LOCK_WAIT, Subscription};
use crate::backoff::Backoff;
use crate::{
    ClaimOutcome, ClaimRequest, Completed, Conflict, Error, ErrorKind, Failed, InFlight, Result,
};

/// What became of a claim.
#[derive(Debug)]
pub(super) enum Verdict {
    Held(Held),
    Completed(Completed),
    Failed(Failed),
    InFlight(InFlight),
    Conflict(Conflict),
}

impl Verdict {
    /// Returns the decision in the form for observers.
    pub(super) fn decision(&self) -> Decision {
        match self {
            Self::Held(held) if held.is_takeover() => Decision::Takeover,
            Self::Held(_) => Decision::New,
            Self::Completed(_) => Decision::Duplicate,
            Self::Failed(_) => Decision::Failed,
            Self::InFlight(_) => Decision::InFlight,
            Self::Conflict(_) => Decision::Conflict,
        }
    }
}

/// Claims the key, and waits as the policy says while another attempt holds it.
///
/// The claim runs in a task of its own. If the caller is dropped before the decision, the task
/// stops, except when a claim may have been granted without an answer. A granted claim is released,
/// because the work never started.
pub(super) async fn claim(context: &Context, request: &ClaimRequest) -> Result<Verdict> {
    let (_here, gone) = oneshot::channel();
    let asking = Asking {
        context: context.clone(),
        request: request.clone(),
        caller: Caller { gone: Some(gone) },
        doubt: Doubt::default(),
    };
    context.to_its_end(asking.run()).await
}

/// Why the key cannot be acquired now.
enum Busy {
    /// Another attempt works on it.
    InFlight(InFlight),
    /// An open transaction holds it, or other callers race for it all the time: its state is not
    /// known yet.
    Contended(Error),
}

impl Busy {
    /// Returns the longest pause before the next claim.
    fn longest_pause(&self) -> Duration {
        match self {
            // Soon after the lease ends, the key may be taken over.
            Self::InFlight(in_flight) => in_flight.lease_remaining(),
            Self::Contended(_) => Duration::MAX,
        }
    }

    /// Returns the answer for a caller that does not wait, or no longer.
    fn verdict(self) -> Result<Verdict> {
        match self {
            Self::InFlight(in_flight) => Ok(Verdict::InFlight(in_flight)),
            Self::Contended(error) => Err(error),
        }
    }
}

fn is_contended(error: &Error) -> bool {
    error.kind() == ErrorKind::Contention
}

struct Asking {
    context: Context,
    request: ClaimRequest,
    caller: Caller,
    doubt: Doubt,
}

impl Asking {
    async fn run(mut self) -> Result<Verdict> {
        let mut wait = match self.context.policy.on_busy() {
            BusyPolicy::Refuse => None,
            BusyPolicy::Wait { limit } => Some(Backoff::new(limit)),
        };
        let patience = self.context.policy.patience();
        let mut found: Option<Busy> = None;
        let mut ears = None;
        let mut _place = None;
        let mut _waits = None;
        loop {
            let is_first = found.is_none();
            let limit = match (&wait, &found) {
                (Some(wait), Some(_)) => wait.left().min(patience),
                _ => patience,
            };
            let contended = match (&wait, &found) {
                (None, _) => patience,
                // A short race for the key does not count as a wait.
                (Some(_), None) => patience.min(MAX_LOCK_WAIT),
                (Some(_), Some(_)) => Duration::ZERO,
            };
            let busy = match (self.ask(limit, contended).await, found) {
                (Ok(Verdict::InFlight(in_flight)), _) => Busy::InFlight(in_flight),
                (Ok(verdict), _) => return Ok(verdict),
                (Err(error), found) if is_contended(&error) && wait.is_some() => match found {
                    // The record that was seen says more.
                    Some(Busy::InFlight(in_flight)) => Busy::InFlight(in_flight),
                    _ => Busy::Contended(error),
                },
                // The wait ended in a moment in which the store could not be reached.
                (Err(error), Some(busy)) if error.is_retryable() && limit < patience => {
                    return busy.verdict();
                }
                (Err(error), _) => return Err(error),
            };
            let Some(backoff) = &mut wait else {
                return busy.verdict();
            };
            // One more claim, at once, finds a change from before the listening began.
            let goes_on = if is_first {
                let Some(free) = self.context.waiting.place() else {
                    return busy.verdict();
                };
                _place = Some(free);
                _waits = Some(self.context.observers.waits(self.request.key()));
                ears = Some(self.listen(backoff.left()).await);
                true
            } else {
                let longest = busy.longest_pause();
                self.caller.waits(backoff, longest, ears.as_mut()).await
            };
            if !goes_on {
                return busy.verdict();
            }
            found = Some(busy);
        }
    }

    /// Listens for changes of the record: in this process, and elsewhere where a notifier is
    /// quickly available.
    async fn listen(&self, left: Duration) -> Subscriptions {
        let key = self.request.key();
        let here = self.context.waiting.listen(key);
        let elsewhere = match &self.context.wakes {
            Some(wakes) => {
                let limit = self.context.policy.try_limit().min(left);
                in_time(limit, "listen", wakes.listen(key)).await.ok()
            }
            None => None,
        };
        Subscriptions { here, elsewhere }
    }

    /// Repeats the claim until the store answers or the time is up. It is always the same attempt,
    /// so that the store recognises a claim whose answer was lost. A store that answers
    /// `Contention` is reachable: that case has a limit of its own.
    async fn ask(&mut self, limit: Duration, contended: Duration) -> Result<Verdict> {
        let mut away = Backoff::new(limit);
        let mut contended = Backoff::new(contended);
        loop {
            let sent = Instant::now();
            let call = self.context.store.claim(&self.request);
            match in_time(self.context.policy.try_limit(), "claim", call).await {
                Ok(outcome) => {
                    self.doubt.clear();
                    return Ok(self.verdict(outcome, sent));
                }
                Err(error) => {
                    let error = self.doubt.about_all(error);
                    let backoff = match is_contended(&error) {
                        true => &mut contended,
                        false => &mut away,
                    };
                    if !error.is_retryable() || !self.pause(backoff).await {
                        return Err(error);
                    }
                    let observers = &self.context.observers;
                    observers.retried(self.request.key(), "claim", &error);
                }
            }
        }
    }

    fn verdict(&self, outcome: ClaimOutcome, sent: Instant) -> Verdict {
        match outcome {
            ClaimOutcome::Acquired(claim) => {
                Verdict::Held(Held::new(self.context.clone(), &self.request, claim, sent))
            }
            ClaimOutcome::Completed(completed) => Verdict::Completed(completed),
            ClaimOutcome::Failed(failed) => Verdict::Failed(failed),
            ClaimOutcome::InFlight(in_flight) => Verdict::InFlight(in_flight),
            ClaimOutcome::Conflict(conflict) => Verdict::Conflict(conflict),
        }
    }

    /// Pauses before the next claim; returns `false` when the caller has gone and nothing has to be
    /// given back.
    async fn pause(&mut self, backoff: &mut Backoff) -> bool {
        if self.caller.waits(backoff, Duration::MAX, None).await {
            return true;
        }
        self.caller.is_gone() && self.doubt.exists() && backoff.pause().await
    }
}

/// The notifications of changes of one record.
struct Subscriptions {
    here: Subscription,
    elsewhere: Option<Subscription>,
}

impl Subscriptions {
    async fn changed(&mut self) {
        match &mut self.elsewhere {
            Some(elsewhere) => tokio::select! {
                () = self.here.changed() => {}
                () = elsewhere.changed() => {}
            },
            None => self.here.changed().await,
        }
    }
}

/// Whether the caller is still there.
struct Caller {
    /// Ends when the caller is dropped; `None` once that was seen.
    gone: Option<oneshot::Receiver<()>>,
}

impl Caller {
    fn is_gone(&self) -> bool {
        self.gone.is_none()
    }

    /// Pauses until the next notification at most; returns `false` when the time is up or the
    /// caller has gone.
    async fn waits(
        &mut self,
        backoff: &mut Backoff,
        longest: Duration,
        ears: Option<&mut Subscriptions>,
    ) -> bool {
        let told = async {
            match ears {
                Some(ears) => ears.changed().await,
                None => std::future::pending().await,
            }
        };
        let Some(gone) = &mut self.gone else {
            return false;
        };
        // Otherwise a listener that is notified again and again would keep it from ending.
        if backoff.left().is_zero() {
            return false;
        }
        tokio::select! {
            biased;
            _ = gone => {
                self.gone = None;
                false
            }
            () = told => true,
            more = backoff.pause_at_most(longest) => more,
        }
    }
}
