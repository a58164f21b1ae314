//! [`force`]: the forced steps of any store, from steps that it has.

use std::time::Duration;

use async_trait::async_trait;

use crate::admin::{
    AUDIT_OPERATION, AuditEntry, AuditOutcome, Forced, ForcedStep, RecordSummary, SummaryState,
};
use crate::backend::FinalResult;
use crate::limits::MAX_RETENTION;
use crate::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Effect, Error, FencingToken, Fingerprint, Key,
    Limits, Metadata, Record, Response, Result, StalePolicy,
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
    /// Reads the record, expired or not; `None` for a free key.
    async fn held(&mut self, key: &Key) -> Result<Option<RecordSummary>>;

    /// Claims the key of an audit entry, as [`claim`](crate::IdempotencyStore::claim).
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome>;

    /// Completes an audit entry, as [`complete`](crate::IdempotencyStore::complete).
    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()>;

    /// Takes the step, if the live record has still the step's token and the state that was seen;
    /// returns whether it had. This is one statement. It ends the record as a release or a failure
    /// does, and leaves it to nobody ([`AttemptId::NIL`]): of several such steps, and the holder's
    /// own, one is taken.
    async fn take(&mut self, step: &ForcedStep, seen: SummaryState) -> Result<bool>;
}

/// Takes a forced step, and leaves an audit entry.
///
/// The entry is the record of the key [`audit_key`], claimed before the step and completed after
/// it.
///
/// # Errors
///
/// `InvalidInput` for a failure or a retention outside the limits, and those of the steps.
pub async fn force(
    steps: &mut dyn ForcedSteps,
    step: &ForcedStep,
    limits: &Limits,
) -> Result<Forced> {
    FinalResult::forced(step.action(), limits)?;
    let Some(before) = steps.held(step.key()).await? else {
        return Ok(Forced::Refused { current: None });
    };
    if !step.applies_to(&before) {
        let current = Some(before);
        return Ok(Forced::Refused { current });
    }
    let entry = claim_entry(steps, step).await?;
    let is_taken = steps.take(step, before.state).await?;
    let status = if is_taken { TAKEN } else { REFUSED };
    let mut audit = AuditEntry::new(step, before.observed_at, AuditOutcome::Done);
    audit.before = Some(before.clone());
    let (_, _, body) = Response::json(&audit)?.into_parts();
    let response = Response::new(status, body);
    let ended = steps.complete(&entry, &response, MAX_RETENTION).await;
    ended.map_err(|error| error.with_effect(Effect::Unknown))?;
    if is_taken {
        return Ok(Forced::Done { before });
    }
    let current = steps.held(step.key()).await?;
    Ok(Forced::Refused { current })
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
    Key::stored(key.scope(), AUDIT_OPERATION, id.id())
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
