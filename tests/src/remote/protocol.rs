//! What goes over the wire.

use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, IdempotencyStore, Key,
    Record, Response, Result,
};
use serde::{Deserialize, Serialize};

/// A request: the namespace and the operation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) namespace: String,
    pub(super) operation: Operation,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Operation {
    Claim(ClaimRequest),
    Complete(Claim, Response, Duration),
    Fail(Claim, Failure, Duration),
    Release(Claim),
    Renew(Claim, Duration),
    Get(Key),
    Purge(u32),
    Sweep(u32),
}

impl Operation {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Complete(..) => "complete",
            Self::Fail(..) => "fail",
            Self::Release(_) => "release",
            Self::Renew(..) => "renew",
            Self::Get(_) => "get",
            Self::Purge(_) => "purge",
            Self::Sweep(_) => "sweep",
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Outcome(ClaimOutcome),
    Done,
    Claim(Claim),
    Record(Option<Record>),
    Count(u64),
    Error {
        kind: String,
        unknown: bool,
        message: String,
    },
}

impl Answer {
    pub(super) async fn of(store: &dyn IdempotencyStore, operation: Operation) -> Self {
        let answer = match operation {
            Operation::Claim(request) => store.claim(&request).await.map(Self::Outcome),
            Operation::Complete(claim, response, retention) => {
                let sealed = store.complete(&claim, &response, retention).await;
                sealed.map(|()| Self::Done)
            }
            Operation::Fail(claim, failure, retention) => {
                let sealed = store.fail(&claim, &failure, retention).await;
                sealed.map(|()| Self::Done)
            }
            Operation::Release(claim) => store.release(&claim).await.map(|()| Self::Done),
            Operation::Renew(claim, lease) => store.renew(&claim, lease).await.map(Self::Claim),
            Operation::Get(key) => store.get(&key).await.map(Self::Record),
            Operation::Purge(limit) => store.purge(limit).await.map(Self::Count),
            Operation::Sweep(limit) => store.sweep(limit).await.map(Self::Count),
        };
        answer.unwrap_or_else(|error| Self::Error {
            kind: format!("{:?}", error.kind()),
            unknown: error.effect() != Effect::None,
            message: error.to_string(),
        })
    }

    /// The answer, or the error that it is.
    pub(super) fn into_result(self) -> Result<Self> {
        let Self::Error {
            kind,
            unknown,
            message,
        } = self
        else {
            return Ok(self);
        };
        let effect = if unknown {
            Effect::Unknown
        } else {
            Effect::None
        };
        let kinds = [
            ErrorKind::InvalidInput,
            ErrorKind::ClaimLost,
            ErrorKind::AlreadySealed,
            ErrorKind::Contention,
            ErrorKind::Unavailable,
            ErrorKind::Misconfigured,
            ErrorKind::Corrupt,
        ];
        let named = kinds.into_iter().find(|known| format!("{known:?}") == kind);
        Err(Error::new(
            named.unwrap_or(ErrorKind::Other),
            effect,
            message,
        ))
    }
}
