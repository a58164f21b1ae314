//! The messages between client and server.

use std::time::Duration;

use idem_core::admin::{
    Cursor, Forced, ForcedAction, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
};
use idem_core::backend::StoredResult;
use idem_core::{
    Advance, Bytes, Checkpoint, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error,
    ErrorKind, Failure, FencingToken, IdempotencyStore, Key, Metadata, Record, Response, Result,
    WatermarkStore,
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
    Checkpoint(Claim, Bytes),
    LastCheckpoint(Claim),
    Advance(Key, u64, Duration),
    Watermark(Key),
    PurgeWatermarks(u32),
    List(RecordFilter, Option<Cursor>, u32),
    Summary(Key),
    Force(Step),
    Rewrite(Rewritten),
}

/// A forced step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Step {
    key: Key,
    token: FencingToken,
    /// The failure that it records, and for how long.
    failure: Option<(Failure, Duration)>,
    is_deletion: bool,
    who: String,
    reason: String,
}

impl Step {
    pub(super) fn of(step: &ForcedStep) -> Self {
        let failure = match step.action() {
            ForcedAction::Fail { failure, retention } => Some((failure.clone(), *retention)),
            ForcedAction::Release | ForcedAction::Delete => None,
        };
        Self {
            key: step.key().clone(),
            token: step.token(),
            failure,
            is_deletion: *step.action() == ForcedAction::Delete,
            who: step.who().to_owned(),
            reason: step.reason().to_owned(),
        }
    }

    fn into_step(self) -> Result<ForcedStep> {
        let action = match self.failure {
            Some((failure, retention)) => ForcedAction::Fail { failure, retention },
            None if self.is_deletion => ForcedAction::Delete,
            None => ForcedAction::Release,
        };
        ForcedStep::new(self.key, self.token, action, self.who, self.reason)
    }
}

/// New forms of a sealed record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Rewritten {
    key: Key,
    token: FencingToken,
    result: std::result::Result<Response, Failure>,
    metadata: Metadata,
}

impl Rewritten {
    pub(super) fn of(rewrite: &Rewrite) -> Self {
        Self {
            key: rewrite.key().clone(),
            token: rewrite.token(),
            result: match rewrite.result().clone() {
                StoredResult::Response(response) => Ok(response),
                StoredResult::Failure(failure) => Err(failure),
            },
            metadata: rewrite.metadata().clone(),
        }
    }

    fn into_rewrite(self) -> Result<Rewrite> {
        let result = match self.result {
            Ok(response) => StoredResult::Response(response),
            Err(failure) => StoredResult::Failure(failure),
        };
        Rewrite::new(self.key, self.token, result, self.metadata)
    }
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
            Self::Checkpoint(..) => "checkpoint",
            Self::LastCheckpoint(_) => "last_checkpoint",
            Self::Advance(..) => "advance",
            Self::Watermark(_) => "watermark",
            Self::PurgeWatermarks(_) => "purge_watermarks",
            Self::List(..) => "list",
            Self::Summary(_) => "summary",
            Self::Force(_) => "force",
            Self::Rewrite(_) => "rewrite",
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
    /// A checkpoint in stored form.
    Point(Option<Bytes>),
    Told(Advance),
    Mark(Option<u64>),
    Page(RecordPage),
    Summary(Option<RecordSummary>),
    Forced(Forced),
    Rewritten(bool),
    Error {
        kind: String,
        unknown: bool,
        message: String,
    },
}

/// The error for a store without the capability.
fn nothing() -> Error {
    let message = "the store of this server keeps none";
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
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
            Operation::Purge(limit) => store.delete_expired(limit).await.map(Self::Count),
            Operation::Sweep(limit) => store.fail_abandoned(limit).await.map(Self::Count),
            Operation::Checkpoint(..) | Operation::LastCheckpoint(_) => {
                Self::of_checkpoints(store, operation).await
            }
            Operation::Advance(..) | Operation::Watermark(_) | Operation::PurgeWatermarks(_) => {
                Self::of_watermarks(store, operation).await
            }
            Operation::List(..)
            | Operation::Summary(_)
            | Operation::Force(_)
            | Operation::Rewrite(_) => Self::of_admin(store, operation).await,
        };
        answer.unwrap_or_else(|error| Self::Error {
            kind: format!("{:?}", error.kind()),
            unknown: error.effect() != Effect::None,
            message: error.to_string(),
        })
    }

    async fn of_checkpoints(store: &dyn IdempotencyStore, operation: Operation) -> Result<Self> {
        let points: &dyn CheckpointStore = store.checkpoints().ok_or_else(nothing)?;
        match operation {
            Operation::Checkpoint(claim, stored) => {
                let point = Checkpoint::decode(&stored)?;
                points.checkpoint(&claim, &point).await.map(|()| Self::Done)
            }
            Operation::LastCheckpoint(claim) => {
                let last = points.last_checkpoint(&claim).await?;
                let stored = last.map(|point| point.encode(&store.limits()));
                stored.transpose().map(Self::Point)
            }
            _ => Err(nothing()),
        }
    }

    async fn of_watermarks(store: &dyn IdempotencyStore, operation: Operation) -> Result<Self> {
        let marks: &dyn WatermarkStore = store.watermarks().ok_or_else(nothing)?;
        match operation {
            Operation::Advance(source, version, retention) => {
                let returned = marks.advance(&source, version, retention).await;
                returned.map(Self::Told)
            }
            Operation::Watermark(source) => marks.watermark(&source).await.map(Self::Mark),
            Operation::PurgeWatermarks(limit) => marks
                .delete_expired_watermarks(limit)
                .await
                .map(Self::Count),
            _ => Err(nothing()),
        }
    }

    async fn of_admin(store: &dyn IdempotencyStore, operation: Operation) -> Result<Self> {
        let admin = store.admin().ok_or_else(nothing)?;
        match operation {
            Operation::List(filter, after, limit) => {
                let page = admin.list(&filter, after.as_ref(), limit).await;
                page.map(Self::Page)
            }
            Operation::Summary(key) => admin.summary(&key).await.map(Self::Summary),
            Operation::Force(step) => admin.force(&step.into_step()?).await.map(Self::Forced),
            Operation::Rewrite(rewritten) => {
                let rewrite = rewritten.into_rewrite()?;
                admin.rewrite(&rewrite).await.map(Self::Rewritten)
            }
            _ => Err(nothing()),
        }
    }

    /// Returns the answer, or its error.
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
