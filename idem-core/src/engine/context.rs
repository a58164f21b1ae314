//! [`Context`]: what the parts of a run share.

use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};

use super::Policy;
use super::observe::{Observer, Observers};
use super::policies::LivePolicies;
use super::waiting::Waiting;
use crate::backend::{ChangeNotifier, check};
use crate::{Effect, Error, ErrorKind, IdempotencyStore, Key, Result};

/// What all runs of an [`Idempotency`](super::Idempotency) share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn IdempotencyStore>,
    pub(super) notifier: Option<Arc<dyn ChangeNotifier>>,
    pub(super) waiting: Arc<Waiting>,
    pub(super) policies: LivePolicies,
    pub(super) observers: Arc<[Arc<dyn Observer>]>,
}

/// What the parts of a run share. A clone costs a reference count of its own, which no other run
/// touches.
#[derive(Debug, Clone)]
pub(super) struct Context(Arc<Parts>);

/// Holds what all runs share, the operation's policy, the observers, and the runtime that the run
/// was started on.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) shared: Arc<Shared>,
    pub(super) policy: Arc<Policy>,
    pub(super) observers: Observers,
    pub(super) runtime: Handle,
    /// Whether the caller was dropped during a step, which a task then ends.
    is_left: AtomicBool,
}

impl Deref for Context {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Context {
    /// Checks the policy, and that there is a runtime.
    pub(super) fn new(shared: &Arc<Shared>, policy: Arc<Policy>, key: &Key) -> Result<Self> {
        policy.check(&shared.store.limits())?;
        let runtime = Handle::try_current().map_err(|source| {
            let message = "a run needs a Tokio runtime with time enabled";
            Error::new(ErrorKind::Misconfigured, Effect::None, message).with_source(source)
        })?;
        Ok(Self(Arc::new(Parts {
            shared: Arc::clone(shared),
            policy,
            observers: Observers::new(&shared.observers, key),
            runtime,
            is_left: AtomicBool::new(false),
        })))
    }

    /// Returns the same with another policy.
    pub(super) fn with_policy(&self, policy: Policy) -> Self {
        Self(Arc::new(Parts {
            shared: Arc::clone(&self.shared),
            policy: Arc::new(policy),
            observers: self.observers.clone(),
            runtime: self.runtime.clone(),
            is_left: AtomicBool::new(false),
        }))
    }

    pub(super) fn store(&self) -> &dyn IdempotencyStore {
        &*self.shared.store
    }

    /// Ends when the caller is dropped. The task that a step is handed to polls everything anew, so
    /// nothing has to wake it.
    pub(super) async fn left(&self) {
        poll_fn(|_| match self.is_left() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Returns whether the caller was dropped during a step.
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Relaxed)
    }

    /// Runs `step` to its end: polled in place, and handed to a task when the caller is dropped.
    pub(super) fn to_its_end<T, F>(&self, step: F) -> impl Future<Output = T> + Send
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        ToItsEnd {
            context: self,
            step: Some(Box::pin(step)),
        }
    }
}

/// See [`Context::to_its_end`].
struct ToItsEnd<'c, F: Future<Output: Send + 'static> + Send + 'static> {
    context: &'c Context,
    /// Taken out while it is polled: a future that has panicked is not polled again.
    step: Option<Pin<Box<F>>>,
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Future for ToItsEnd<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<F::Output> {
        let Some(mut step) = self.step.take() else {
            return Poll::Pending;
        };
        let poll = step.as_mut().poll(context);
        if poll.is_pending() {
            self.step = Some(step);
        }
        poll
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Drop for ToItsEnd<'_, F> {
    fn drop(&mut self) {
        if let Some(step) = self.step.take() {
            self.context.is_left.store(true, Ordering::Relaxed);
            let step = self.context.observers.around(step);
            self.context.runtime.spawn(step);
        }
    }
}

/// Returns the call's result, or an error when it gave none within the limit.
pub(super) async fn in_time<T>(
    limit: Duration,
    operation: &'static str,
    call: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    in_time_since(Instant::now(), limit, operation, call).await
}

/// Like [`in_time`], but the limit counts from `sent`.
pub(super) async fn in_time_since<T>(
    sent: Instant,
    limit: Duration,
    operation: &'static str,
    call: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    let (mut call, mut timer) = (pin!(call), pin!(None));
    poll_fn(|context| {
        if let Poll::Ready(result) = call.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        // An answer at the first poll needs no timer.
        if timer.is_none() {
            // Unconstrained, so that a call that uses up the task's budget is stopped, too.
            timer.set(Some(unconstrained(sleep_until(check::deadline_from(
                sent, limit,
            )))));
        }
        let passed = timer.as_mut().as_pin_mut().map(|timer| timer.poll(context));
        match passed {
            Some(Poll::Ready(())) => {
                let message = format!("no answer in {} ms", limit.as_millis());
                let error = Error::new(ErrorKind::Unavailable, Effect::Unknown, message);
                Poll::Ready(Err(error.at("", operation)))
            }
            Some(Poll::Pending) | None => Poll::Pending,
        }
    })
    .await
}

/// Whether one of several tries may have taken effect.
#[derive(Debug, Default)]
pub(super) struct Doubt(bool);

impl Doubt {
    /// Returns the error of the latest try, with an effect that covers all of them.
    pub(super) fn about_all(&mut self, error: Error) -> Error {
        self.0 |= error.effect() != Effect::None;
        match error.kind() {
            // This answer settles the claim's state, whatever the earlier tries did.
            ErrorKind::ClaimLost | ErrorKind::AlreadySealed => error,
            _ if self.0 => error.with_effect(Effect::Unknown),
            _ => error,
        }
    }

    pub(super) fn exists(&self) -> bool {
        self.0
    }

    /// Records that a definite answer came.
    pub(super) fn clear(&mut self) {
        self.0 = false;
    }
}
