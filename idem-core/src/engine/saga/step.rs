//! [`SagaStep`]: the argument of a step.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::Redacted;
use crate::{BoxError, Error, Response, Result, Work, carried};

/// One step or compensation as the saga keeps it.
pub(super) struct Step<R> {
    pub(super) name: String,
    pub(super) action: Action<R>,
    pub(super) compensation: Option<Action<R>>,
}

type Answer = Pin<Box<dyn Future<Output = Result<Sealed, StepError>> + Send>>;

pub(super) type Action<R> = Box<dyn Fn(SagaStep<R>) -> Answer + Send + Sync>;

/// Returns the action with its value as JSON.
pub(super) fn boxed<R, T, F, Fut>(action: F) -> Action<R>
where
    R: Send + Sync + 'static,
    T: Serialize,
    F: Fn(SagaStep<R>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, StepError>> + Send + 'static,
{
    Box::new(move |step| {
        let answer = action(step);
        Box::pin(async move { Ok(Sealed::of(answer.await?)) })
    })
}

/// The result of a step or a compensation, as it is sealed.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sealed {
    Done(Value),
    /// It did not happen, and never will.
    Refused(String),
    /// It happened, and its value cannot be kept.
    Unkept(String),
}

impl Sealed {
    fn of<T: Serialize>(value: T) -> Self {
        match kept(&value) {
            Ok(value) => Self::Done(value),
            Err(error) => Self::Unkept(error.to_string()),
        }
    }
}

/// Returns the value in the form that is kept.
fn kept<T: Serialize>(value: &T) -> Result<Value> {
    carried::check("the value", value)?;
    serde_json::to_value(value).map_err(|source| {
        Error::invalid_input("the value cannot be written as JSON").with_source(source)
    })
}

/// Why a step did not happen.
///
/// Neither `Display` nor `Debug` shows the text of the reason, which may quote data: it is the
/// [`source`](std::error::Error::source).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Not now: the saga stops, and its next run tries the step again.
    #[error("a temporary error of a step")]
    Temporary(#[source] BoxError),
    /// Never: the steps before it are undone.
    #[error("a permanent error of a step")]
    Permanent(#[source] BoxError),
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, reason) = match self {
            Self::Temporary(reason) => ("Temporary", reason),
            Self::Permanent(reason) => ("Permanent", reason),
        };
        f.debug_tuple(name)
            .field(&Redacted::new(&**reason))
            .finish()
    }
}

impl StepError {
    /// Returns [`Temporary`](Self::Temporary).
    #[must_use]
    pub fn temporary(error: impl Into<BoxError>) -> Self {
        Self::Temporary(error.into())
    }

    /// Returns the reason that the step gave.
    pub(super) fn into_reason(self) -> BoxError {
        match self {
            Self::Temporary(reason) | Self::Permanent(reason) => reason,
        }
    }

    /// Returns [`Permanent`](Self::Permanent). Its text is kept, and replayed.
    #[must_use]
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self::Permanent(error.into())
    }
}

/// The argument of a step or a compensation: the saga's input, the values of the steps before, and
/// its own [`Work`](crate::Work).
///
/// `Debug` shows neither input nor values.
pub struct SagaStep<R> {
    pub(super) input: Arc<R>,
    pub(super) results: Arc<BTreeMap<String, Value>>,
    pub(super) work: Work,
}

impl<R> SagaStep<R> {
    /// Returns the saga's input.
    #[must_use]
    pub fn input(&self) -> &R {
        &self.input
    }

    /// Returns the step's own run: its key, its claim, and whether it still holds the claim.
    #[must_use]
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Returns the value of a step that is done; `None` when it is not, or not known to be.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when the value is not the JSON of a `T`.
    pub fn result<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>> {
        let Some(value) = self.results.get(step) else {
            return Ok(None);
        };
        T::deserialize(value).map(Some).map_err(|source| {
            Error::corrupt(format!(
                "the value of the step `{step}` is not the JSON of a {}",
                std::any::type_name::<T>()
            ))
            .with_source(source)
        })
    }

    /// Returns the response that seals the step's claim for this value: for a step that seals it
    /// itself, in its own transaction.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the value has no JSON form, or one
    /// that does not carry it: see [`Response::json`].
    pub fn response<T: Serialize>(&self, value: T) -> Result<Response> {
        Response::json(&Sealed::Done(kept(&value)?))
    }
}

impl<R> Clone for SagaStep<R> {
    fn clone(&self) -> Self {
        Self {
            input: Arc::clone(&self.input),
            results: Arc::clone(&self.results),
            work: self.work.clone(),
        }
    }
}

impl<R> fmt::Debug for SagaStep<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SagaStep")
            .field("work", &self.work)
            .finish_non_exhaustive()
    }
}
