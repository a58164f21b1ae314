//! Asking for a claim until there is a verdict.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::BusyPolicy;
use super::context::{Context, Doubt, in_time};
use super::held::Held;
use super::observe::Decision;
use crate::backoff::Backoff;
use crate::{ClaimOutcome, ClaimRequest, Completed, Conflict, Failed, InFlight, Listener, Result};

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
    /// As observers hear of it.
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

/// Claims the key, waiting as the policy says while somebody else holds it.
///
/// Asked in a task of its own. If the caller is dropped before the verdict, the task stops asking, unless a
/// claim may have been granted without an answer; and what was granted is released, because the work never
/// started.
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
        let mut found = None;
        let mut ears = None;
        let mut _place = None;
        let mut _waits = None;
        loop {
            let is_first = found.is_none();
            let limit = match (&wait, &found) {
                (Some(wait), Some(_)) => wait.left().min(patience),
                _ => patience,
            };
            let in_flight = match (self.ask(limit).await, found) {
                (Ok(Verdict::InFlight(in_flight)), _) => in_flight,
                (Ok(verdict), _) => return Ok(verdict),
                // The wait ended in a moment in which the store could not be reached.
                (Err(error), Some(in_flight)) if error.is_retryable() && limit < patience => {
                    return Ok(Verdict::InFlight(in_flight));
                }
                (Err(error), _) => return Err(error),
            };
            let Some(backoff) = &mut wait else {
                return Ok(Verdict::InFlight(in_flight));
            };
            // What happened before the listening began is found by asking once more, at once.
            let goes_on = if is_first {
                let Some(free) = self.context.waiting.place() else {
                    return Ok(Verdict::InFlight(in_flight));
                };
                _place = Some(free);
                _waits = Some(self.context.observers.waits(self.request.key()));
                ears = Some(self.listen(backoff.left()).await);
                true
            } else {
                // Soon after the lease ends, there is something to take over.
                let longest = in_flight.lease_remaining();
                self.caller.waits(backoff, longest, ears.as_mut()).await
            };
            if !goes_on {
                return Ok(Verdict::InFlight(in_flight));
            }
            found = Some(in_flight);
        }
    }

    /// Listens for changes of the record, in this process, and elsewhere where there is something to listen to in a
    /// moment.
    async fn listen(&self, left: Duration) -> Ears {
        let key = self.request.key();
        let here = self.context.waiting.listen(key);
        let elsewhere = match &self.context.wakes {
            Some(wakes) => {
                let limit = self.context.policy.try_limit().min(left);
                in_time(limit, "listen", wakes.listen(key)).await.ok()
            }
            None => None,
        };
        Ears { here, elsewhere }
    }

    /// Asks until the store answers or the time is up, always as the same attempt, so that a claim whose
    /// answer was lost is recognised.
    async fn ask(&mut self, limit: Duration) -> Result<Verdict> {
        let mut backoff = Backoff::new(limit);
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
                    if !error.is_retryable() || !self.pause(&mut backoff).await {
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

    /// Pauses before asking again; `false` when there is nobody to ask for and nothing to give back.
    async fn pause(&mut self, backoff: &mut Backoff) -> bool {
        if self.caller.waits(backoff, Duration::MAX, None).await {
            return true;
        }
        self.caller.is_gone() && self.doubt.exists() && backoff.pause().await
    }
}

/// What tells of changes of one record.
struct Ears {
    here: Listener,
    elsewhere: Option<Listener>,
}

impl Ears {
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

    /// Pauses, until the listener is told something at most; `false` when the time is up or the caller has gone.
    async fn waits(
        &mut self,
        backoff: &mut Backoff,
        longest: Duration,
        ears: Option<&mut Ears>,
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
        // Or a listener that is told again and again would keep it from ending.
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
