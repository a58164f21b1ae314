//! Repeats a claim until there is a decision.

use std::time::Duration;

use tokio::time::Instant;

use super::BusyPolicy;
use super::context::{Context, Doubt, in_time, in_time_since};
use super::held::Held;
use super::observe::Decision;
use crate::adopt::claim_matching;
use crate::backend::{MAX_LOCK_WAIT, Subscription};
use crate::backoff::Backoff;
use crate::{
    Claim, ClaimOutcome, ClaimRequest, Completed, Conflict, Error, ErrorKind, Failed, InFlight,
    Result,
};

/// What became of a claim; `H` is what a granted one holds.
#[derive(Debug)]
pub(super) enum Claimed<H = Held> {
    Held(H),
    Completed(Completed),
    Failed(Failed),
    InFlight(InFlight),
    Conflict(Conflict),
}

impl<H> Claimed<H> {
    /// Returns the answer of a claim that was not granted; otherwise the claim as the error.
    pub(super) fn lost(outcome: ClaimOutcome) -> Result<Self, Claim> {
        Ok(match outcome {
            ClaimOutcome::Acquired(claim) => return Err(claim),
            ClaimOutcome::Completed(completed) => Self::Completed(completed),
            ClaimOutcome::Failed(failed) => Self::Failed(failed),
            ClaimOutcome::InFlight(in_flight) => Self::InFlight(in_flight),
            ClaimOutcome::Conflict(conflict) => Self::Conflict(conflict),
        })
    }

    /// Returns the decision in the form for observers.
    pub(super) fn decision(&self, is_takeover: impl FnOnce(&H) -> bool) -> Decision {
        match self {
            Self::Held(held) if is_takeover(held) => Decision::Takeover,
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
pub(super) async fn claim(context: &Context, request: &ClaimRequest) -> Result<Claimed> {
    let begun = Instant::now();
    let mut asking = Asking::new(context, request, AtTheStore);
    context
        .to_its_end(async move { asking.run(begun).await })
        .await
}

/// How a claim is sent.
pub(super) trait Asks: Send + Sync {
    type Held: Send;

    /// Sends it once; the time-out of the call counts from `sent`.
    fn ask(
        &self,
        context: &Context,
        request: &ClaimRequest,
        sent: Instant,
    ) -> impl Future<Output = Result<Claimed<Self::Held>>> + Send;

    /// Returns how long a caller that does not wait repeats a claim that meets a locked key.
    fn contended(&self, retry_timeout: Duration) -> Duration;
}

/// As a claim with a lease.
struct AtTheStore;

impl Asks for AtTheStore {
    type Held = Held;

    async fn ask(
        &self,
        context: &Context,
        request: &ClaimRequest,
        sent: Instant,
    ) -> Result<Claimed> {
        let outcome = claim_matching(context.store(), request).await?;
        let held = |claim| Claimed::Held(Held::new(context.clone(), request, claim, sent));
        Ok(Claimed::lost(outcome).unwrap_or_else(held))
    }

    fn contended(&self, retry_timeout: Duration) -> Duration {
        retry_timeout
    }
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
    fn claimed<H>(self) -> Result<Claimed<H>> {
        match self {
            Self::InFlight(in_flight) => Ok(Claimed::InFlight(in_flight)),
            Self::Contended(error) => Err(error),
        }
    }
}

fn is_contended(error: &Error) -> bool {
    error.kind() == ErrorKind::Contention
}

pub(super) struct Asking<A> {
    context: Context,
    request: ClaimRequest,
    doubt: Doubt,
    asks: A,
}

impl<A: Asks> Asking<A> {
    pub(super) fn new(context: &Context, request: &ClaimRequest, asks: A) -> Self {
        Self {
            context: context.clone(),
            request: request.clone(),
            doubt: Doubt::default(),
            asks,
        }
    }

    /// Claims, and waits as the policy says.
    pub(super) async fn run(&mut self, begun: Instant) -> Result<Claimed<A::Held>> {
        let retry_timeout = self.context.policy.retry_timeout();
        let BusyPolicy::Wait { limit } = self.context.policy.on_busy() else {
            let contended = self.asks.contended(retry_timeout);
            return self.ask(begun, retry_timeout, contended).await;
        };
        // A short race for the key does not count as a wait.
        let contended = retry_timeout.min(MAX_LOCK_WAIT);
        let busy = match self.ask(begun, retry_timeout, contended).await {
            Ok(Claimed::InFlight(in_flight)) => Busy::InFlight(in_flight),
            Err(error) if is_contended(&error) => Busy::Contended(error),
            answer => return answer,
        };
        // Boxed, so that a claim that is answered at once makes a small future.
        Box::pin(self.wait(busy, Backoff::since(begun, limit))).await
    }

    /// Repeats the claim until it is decided or the time is up.
    async fn wait(&mut self, mut busy: Busy, mut backoff: Backoff) -> Result<Claimed<A::Held>> {
        let Some(_permit) = self.context.shared.waiting.permit() else {
            return busy.claimed();
        };
        let _waits = self.context.observers.waits(self.request.key());
        let mut subscriptions = self.listen(backoff.left()).await;
        let retry_timeout = self.context.policy.retry_timeout();
        loop {
            // The first of these claims finds a change from before the listening began.
            let limit = backoff.left().min(retry_timeout);
            busy = match self.ask(Instant::now(), limit, Duration::ZERO).await {
                Ok(Claimed::InFlight(in_flight)) => Busy::InFlight(in_flight),
                Ok(claimed) => return Ok(claimed),
                Err(error) if is_contended(&error) => match busy {
                    // The record that was seen says more.
                    Busy::InFlight(in_flight) => Busy::InFlight(in_flight),
                    Busy::Contended(_) => Busy::Contended(error),
                },
                // The wait ended in a moment in which the store could not be reached.
                Err(error) if error.is_retryable() && limit < retry_timeout => {
                    return busy.claimed();
                }
                Err(error) => return Err(error),
            };
            let longest = busy.longest_pause();
            let changes = Some(&mut subscriptions);
            if !waits(&self.context, &mut backoff, longest, changes).await {
                return busy.claimed();
            }
        }
    }

    /// Listens for changes of the record: in this process, and elsewhere where a notifier is
    /// quickly available.
    async fn listen(&self, left: Duration) -> Subscriptions {
        let key = self.request.key();
        let here = self.context.shared.waiting.listen(key);
        let elsewhere = match &self.context.shared.notifier {
            Some(notifier) => {
                let limit = self.context.policy.try_limit().min(left);
                in_time(limit, "listen", notifier.listen(key)).await.ok()
            }
            None => None,
        };
        Subscriptions { here, elsewhere }
    }

    /// Repeats the claim until the store answers or the time is up. It is always the same attempt,
    /// so that the store recognises a claim whose answer was lost. A store that answers
    /// `Contention` is reachable: that case has a limit of its own.
    async fn ask(
        &mut self,
        mut sent: Instant,
        limit: Duration,
        contended: Duration,
    ) -> Result<Claimed<A::Held>> {
        let begun = sent;
        let (mut away_backoff, mut contended_backoff) = (None, None);
        loop {
            let call = self.asks.ask(&self.context, &self.request, sent);
            let try_limit = self.context.policy.try_limit();
            match in_time_since(sent, try_limit, "claim", call).await {
                Ok(claimed) => {
                    self.doubt.clear();
                    return Ok(claimed);
                }
                Err(error) => {
                    let error = self.doubt.about_all(error);
                    let (backoff, limit) = match is_contended(&error) {
                        true => (&mut contended_backoff, contended),
                        false => (&mut away_backoff, limit),
                    };
                    let backoff = backoff.get_or_insert_with(|| Backoff::since(begun, limit));
                    if !error.is_retryable() || !Box::pin(self.pause(backoff)).await {
                        return Err(error);
                    }
                    let observers = &self.context.observers;
                    observers.retried(self.request.key(), "claim", &error);
                    sent = Instant::now();
                }
            }
        }
    }

    /// Pauses before the next claim; returns `false` when the caller has gone and nothing has to be
    /// given back.
    async fn pause(&mut self, backoff: &mut Backoff) -> bool {
        if waits(&self.context, backoff, Duration::MAX, None).await {
            return true;
        }
        self.context.is_left() && self.doubt.exists() && backoff.pause().await
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

/// Pauses until the next notification at most; returns `false` when the time is up or the caller
/// has gone.
async fn waits(
    context: &Context,
    backoff: &mut Backoff,
    longest: Duration,
    subscriptions: Option<&mut Subscriptions>,
) -> bool {
    let changed = async {
        match subscriptions {
            Some(subscriptions) => subscriptions.changed().await,
            None => std::future::pending().await,
        }
    };
    // Otherwise a listener that is notified again and again would keep it from ending.
    if backoff.left().is_zero() {
        return false;
    }
    tokio::select! {
        biased;
        () = context.left() => false,
        () = changed => true,
        more = backoff.pause_at_most(longest) => more,
    }
}
