//! [`force`]: the forced steps of any store, from steps that it has.

use std::time::Duration;

use async_trait::async_trait;

use crate::admin::{
    AUDIT_OPERATION, AuditEntry, AuditOutcome, Forced, ForcedAction, ForcedStep, RecordSummary,
};
use crate::backend::FinalResult;
use crate::limits::MAX_RETENTION;
use crate::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Effect, Error, FencingToken, Fingerprint, Finish,
    Key, Limits, Metadata, Record, Response, Result, StalePolicy,
};

/// How long an entry whose process died stays in flight.
const ENTRY_LEASE: Duration = Duration::from_secs(60);

/// The status of the entry of a step that was taken.
const TAKEN: u16 = 200;

/// The status of the entry of a step that lost a race. It stays, so that entries have no gap.
const REFUSED: u16 = 409;

/// What [`force`] needs of a store: in one transaction where the store has transactions.
#[async_trait]
pub trait ForcedSteps: Send {
    /// Reads the record, expired or not, and the attempt that holds it; `None` for a free key.
    async fn held(&mut self, key: &Key) -> Result<Option<(RecordSummary, AttemptId)>>;

    /// Claims a key, as [`claim`](crate::IdempotencyStore::claim).
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome>;

    /// Ends a claim, as [`finish_many`](crate::BatchStore::finish_many) does.
    async fn finish(&mut self, item: &Finish) -> Result<()>;

    /// Makes a completed or failed record with this token a released one, whose token stays.
    /// Returns whether there was one.
    async fn forget(&mut self, key: &Key, token: FencingToken) -> Result<bool>;
}

/// Takes a forced step, and leaves an audit entry.
///
/// The entry is the record of the key [`audit_key`], claimed before the step and completed after
/// it. The step is that of the holder, under the holder's own claim: the statement that takes it
/// compares the token, so no other acquisition is ever changed.
///
/// # Errors
///
/// Those of the steps.
pub async fn force(
    steps: &mut dyn ForcedSteps,
    step: &ForcedStep,
    limits: &Limits,
) -> Result<Forced> {
    if let ForcedAction::Fail { failure, retention } = step.action() {
        FinalResult::failed(failure, *retention, limits)?;
    }
    let Some((before, attempt)) = steps.held(step.key()).await? else {
        return Ok(Forced::Refused { current: None });
    };
    if !step.applies_to(&before) {
        let current = Some(before);
        return Ok(Forced::Refused { current });
    }
    let entry = claim_entry(steps, step).await?;
    let held = Claim::new(
        step.key().clone(),
        step.token(),
        attempt,
        before.attempts,
        before.observed_at,
        before.lease_ends_at.unwrap_or_default(),
    );
    let is_taken = take(steps, step, held).await?;
    let status = if is_taken { TAKEN } else { REFUSED };
    let mut audit = AuditEntry::new(step, before.observed_at, AuditOutcome::Done);
    audit.before = Some(before.clone());
    let (_, _, body) = Response::json(&audit)?.into_parts();
    let response = Response::new(status, body);
    let end = Finish::Complete {
        claim: entry,
        response,
        retention: MAX_RETENTION,
    };
    let ended = steps.finish(&end).await;
    ended.map_err(|error| error.with_effect(Effect::Unknown))?;
    if is_taken {
        return Ok(Forced::Done { before });
    }
    let current = steps.held(step.key()).await?;
    let current = current.map(|(record, _)| record);
    Ok(Forced::Refused { current })
}

async fn take(steps: &mut dyn ForcedSteps, step: &ForcedStep, claim: Claim) -> Result<bool> {
    let end = match step.action() {
        ForcedAction::Release => Finish::Release { claim },
        ForcedAction::Fail { failure, retention } => Finish::Fail {
            claim,
            failure: failure.clone(),
            retention: *retention,
        },
        ForcedAction::Delete => return steps.forget(step.key(), step.token()).await,
    };
    match steps.finish(&end).await {
        Ok(()) => Ok(true),
        Err(error) if is_refusal(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_refusal(error: &Error) -> bool {
    use crate::ErrorKind::{AlreadySealed, ClaimLost};
    matches!(error.kind(), ClaimLost | AlreadySealed)
}

/// Claims the first entry of the key that nobody has.
async fn claim_entry(steps: &mut dyn ForcedSteps, step: &ForcedStep) -> Result<Claim> {
    let metadata = Metadata::new()
        .with("who", step.who())
        .with("reason", step.reason())
        .with("action", step.action().name())
        .with("token", step.token().to_string());
    let mut number = 1;
    loop {
        let attempt = AttemptId::random();
        // Of this attempt alone, so that every other one meets a conflict.
        let fingerprint = Fingerprint::raw(attempt.as_bytes());
        let request = ClaimRequest::new(audit_key(step.key(), number)?, fingerprint)
            .with_attempt(attempt)
            .with_lease(ENTRY_LEASE)
            .with_retention(MAX_RETENTION)
            .with_on_stale(StalePolicy::Fail)
            .with_metadata(metadata.clone());
        match steps.claim(&request).await? {
            ClaimOutcome::Acquired(claim) => return Ok(claim),
            _ => number += 1,
        }
    }
}

/// Returns the key of the audit entry with this number, from 1: same scope, the operation
/// [`AUDIT_OPERATION`], and an id that is derived from the whole key.
///
/// # Errors
///
/// None for any valid key.
pub fn audit_key(key: &Key, number: u64) -> Result<Key> {
    let id = key.derive(&format!("idem.audit/{number}"));
    Key::new(key.scope(), AUDIT_OPERATION, id.id())
}

/// Reads an audit entry; `None` for one whose step was refused.
///
/// # Errors
///
/// `Corrupt` for a record that is no audit entry.
pub(crate) fn audit_entry(record: &Record) -> Result<Option<AuditEntry>> {
    if let Some(response) = record.response() {
        let is_taken = response.status() == TAKEN;
        return is_taken.then(|| response.from_json()).transpose();
    }
    let info = record.info();
    let text = |name| info.metadata.get(name).unwrap_or_default().to_owned();
    let token = text("token").parse();
    let token = token.map_err(|source: std::num::ParseIntError| {
        Error::corrupt("an audit entry has no token in its metadata").with_source(source)
    })?;
    Ok(Some(AuditEntry {
        at: info.created_at,
        who: text("who"),
        reason: text("reason"),
        action: text("action"),
        token: FencingToken::from_i64(token),
        outcome: AuditOutcome::Unknown,
        before: None,
    }))
}
