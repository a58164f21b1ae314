//! One run: claim, work, last step.

use std::any::Any;
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::Poll;

use super::also::first_key;
use super::codec::Codec;
use super::context::Context;
use super::ending::Ending;
use super::held::Held;
use super::observe::Decision;
use super::wait::{Claimed, claim};
use super::{ErrorPolicy, Outcome, RunError, Work};
use crate::backend::check;
use crate::backoff::Backoff;
use crate::{
    Completed, Effect, Error, ErrorKind, Failure, Fingerprint, Key, Limits, Response, Result,
};

/// The most bytes of an error's text that are recorded.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Claims the key, and follows the decision.
pub(super) async fn run<C, T, E, F, Fut>(
    context: &Context,
    key: &Key,
    fingerprint: Fingerprint,
    work: F,
) -> Result<Outcome<T>, RunError<E, T>>
where
    C: Codec<T>,
    T: Send,
    E: Display + Send,
    F: FnOnce(Work) -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
{
    match held::<C, _, _, _>(decided(context, key, fingerprint).await) {
        ControlFlow::Continue(held) => perform::<C, _, _, _, _>(context, held, work).await,
        ControlFlow::Break(answer) => answer,
    }
}

/// Returns what a granted claim holds, and otherwise the answer to the caller.
pub(super) fn held<C: Codec<T>, H, T, E>(
    claimed: Result<Claimed<H>>,
) -> ControlFlow<Result<Outcome<T>, RunError<E, T>>, H> {
    ControlFlow::Break(match claimed {
        Ok(Claimed::Held(held)) => return ControlFlow::Continue(held),
        Ok(Claimed::Completed(completed)) => replayed::<C, _>(completed).map_err(RunError::Codec),
        Ok(Claimed::Failed(failed)) => Err(RunError::Failed(failed)),
        Ok(Claimed::InFlight(in_flight)) => Err(RunError::InFlight(in_flight)),
        Ok(Claimed::Conflict(conflict)) => Err(RunError::Conflict(conflict)),
        Err(error) => Err(RunError::Store(error)),
    })
}

/// Claims the key and reports the decision to the observers.
pub(super) async fn decided(
    context: &Context,
    key: &Key,
    fingerprint: Fingerprint,
) -> Result<Claimed> {
    let claimed = claim_in_time(context, key, fingerprint).await;
    let decision = claimed.as_ref().map(|it| it.decision(Held::is_takeover));
    let decision = decision.unwrap_or(Decision::Unknown);
    context.observers.decided(key, decision);
    claimed
}

pub(super) fn replayed<C: Codec<T>, T>(completed: Completed) -> Result<Outcome<T>> {
    let sealed_at = completed.sealed_at;
    let value = C::decode(completed.response)?;
    Ok(Outcome::Replayed { value, sealed_at })
}

/// Claims the key. Work does not start on a lease that was over before its grant arrived: the claim
/// is repeated, and the same attempt gets its own claim back with a new lease, or the current
/// state.
async fn claim_in_time(context: &Context, key: &Key, fingerprint: Fingerprint) -> Result<Claimed> {
    let mut request = context.policy.request(key.clone(), fingerprint);
    let mut backoff = None;
    loop {
        match claim(context, &request).await? {
            Claimed::Held(mut held) if held.is_over() => {
                let backoff =
                    backoff.get_or_insert_with(|| Backoff::new(context.policy.retry_timeout()));
                if !Box::pin(backoff.pause()).await {
                    return Err(Error::new(
                        ErrorKind::Unavailable,
                        Effect::None,
                        "the lease was over each time that the store's answer arrived; the lease is \
                         too short for this store, or this process has too much to do",
                    ));
                }
                held.set_on_drop(Ending::LetExpire);
            }
            Claimed::Failed(failed) => match first_key(&failed) {
                Some(first) if first != *request.key() => {
                    request = context.policy.request(first, fingerprint);
                }
                _ => return Ok(Claimed::Failed(failed)),
            },
            claimed => return Ok(claimed),
        }
    }
}

/// Runs the work under the claim, then takes the last step.
pub(super) async fn perform<C, T, E, F, Fut>(
    context: &Context,
    mut held: Held,
    work: F,
) -> Result<Outcome<T>, RunError<E, T>>
where
    C: Codec<T>,
    T: Send,
    E: Display + Send,
    F: FnOnce(Work) -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
{
    held.start();
    let handle = Work::of(&held);
    match caught(work, handle).await {
        Ok(Ok(value)) => seal::<C, _, _>(context, held, value).await,
        Ok(Err(error)) => {
            // If this fails, the lease runs out; the caller needs the work's error.
            let ending = match held.lease().expires() {
                true => Ending::LetExpire,
                false => after_error(context, &error),
            };
            let _ = held.settle(ending).await;
            Err(RunError::Work(error))
        }
        Err(panic) => {
            let ending = Ending::interrupted(context.policy.on_panic(), panicked);
            let _ = held.settle(ending).await;
            resume_unwind(panic)
        }
    }
}

pub(super) fn panicked() -> Failure {
    Failure::new(Failure::PANICKED, "the work panicked")
}

pub(super) fn cancelled() -> Failure {
    let message = "the caller went away while the work ran";
    Failure::new(Failure::CANCELLED, message)
}

/// Returns the work's result, or its panic. The work is dropped before this ends.
pub(super) async fn caught<A, F, Fut>(
    work: F,
    argument: A,
) -> Result<Fut::Output, Box<dyn Any + Send>>
where
    F: FnOnce(A) -> Fut + Send,
    Fut: Future + Send,
{
    let mut future = pin!(catch_unwind(AssertUnwindSafe(|| work(argument)))?);
    poll_fn(|context| {
        // The state that the panic left behind is dropped and never read.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

/// Seals the value: the effect has happened, so the key is never released from here on.
async fn seal<C: Codec<T>, T: Send, E>(
    context: &Context,
    mut held: Held,
    value: T,
) -> Result<Outcome<T>, RunError<E, T>> {
    held.set_on_drop(Ending::NotStored);
    let limits = context.policy.limits(context.store().limits());
    let mut encoded = encode::<C, T>(&value, &limits);
    if let Some(sealed) = held.lease().sealed().cloned() {
        let _ = held.settle(Ending::LetExpire).await;
        if encoded.is_ok_and(|response| response == sealed) {
            return Ok(Outcome::Fresh(value));
        }
        return C::decode(sealed)
            .map(Outcome::Fresh)
            .map_err(RunError::Codec);
    }
    if context.policy.requires_transactions() {
        let message = "the policy demands that results commit together with rows, and the work has returned without \
                       `Work::commit`";
        encoded = Err(Error::new(ErrorKind::Misconfigured, Effect::None, message));
    }
    let source = match encoded {
        Ok(response) => match held.settle(Ending::Complete(response)).await {
            Ok(()) => return Ok(Outcome::Fresh(value)),
            Err(error) => error,
        },
        Err(error) => {
            let _ = held.settle(Ending::NotStored).await;
            error
        }
    };
    Err(RunError::NotStored { value, source })
}

pub(super) fn encode<C: Codec<T>, T>(value: &T, limits: &Limits) -> Result<Response> {
    let response = C::encode(value)?;
    check::response_fits(&response, limits)?;
    Ok(response)
}

pub(super) fn after_error(context: &Context, error: &impl Display) -> Ending {
    match context.policy.on_error() {
        ErrorPolicy::Release => Ending::Release,
        ErrorPolicy::LetExpire => Ending::LetExpire,
        ErrorPolicy::Record => {
            let mut message = error.to_string();
            message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
            let failure = Failure::new(Failure::FAILED, message);
            let fits = check::failure(&failure, &context.store().limits()).is_ok();
            Ending::Fail(if fits {
                failure
            } else {
                Failure::new(Failure::FAILED, "")
            })
        }
    }
}
