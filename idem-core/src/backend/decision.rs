//! Pure functions that decide what becomes of a record: the rules that every store keeps.
//!
//! The memory store calls these functions. The statements of the other stores express the same
//! rules in their own language, and refer to the rows of the tables here. The conformance suite
//! takes every row to every store and compares the answer with the function's.
//!
//! A store that reads a record, decides and writes must make these three steps atomic: under the
//! record's lock, or in one statement whose condition is checked when it writes.

use crate::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, FailedPolicy, FencingToken, Fingerprint,
    StalePolicy, Timestamp,
};

/// The state that a record is stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordState {
    /// Claimed, and not sealed yet.
    InFlight,
    /// Sealed with a response.
    Completed,
    /// Sealed with a failure, or abandoned.
    Failed,
    /// Given up. It counts as absent; its token is kept.
    Released,
}

/// The part of a stored record that decisions depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordFacts {
    /// Its state.
    pub state: RecordState,
    /// The fingerprint of its request.
    pub fingerprint: Fingerprint,
    /// The token of its latest acquisition.
    pub token: FencingToken,
    /// The attempt that made it; [`AttemptId::NIL`] once the record was abandoned.
    pub attempt: AttemptId,
    /// What becomes of it when its lease is over.
    pub on_stale: StalePolicy,
    /// The end of the lease, while in flight.
    pub lease_ends_at: Timestamp,
    /// The end of the retention.
    pub expires_at: Timestamp,
}

impl RecordFacts {
    /// Returns whether the record counts: neither released nor past its retention.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.state != RecordState::Released && self.expires_at > now
    }

    /// Returns whether it is in flight and its lease is over.
    #[must_use]
    pub fn is_stale(&self, now: Timestamp) -> bool {
        self.state == RecordState::InFlight && self.lease_ends_at <= now
    }

    /// Returns whether the claim is the latest acquisition. An abandoned record has no owner.
    #[must_use]
    pub fn is_owned_by(&self, claim: &Claim) -> bool {
        self.token == claim.token() && self.attempt == claim.attempt()
    }
}

/// What a claim does with the record that it meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClaimDecision {
    /// The key is acquired as if it had never been claimed: attempt 1, no checkpoint. The token is
    /// greater than every earlier one all the same.
    Fresh,
    /// The same attempt claims again: it keeps token, attempts and checkpoint, and its lease starts
    /// anew.
    Own,
    /// Another caller's stale claim is acquired: greater token, one more attempt, the checkpoint
    /// stays.
    TakeOver,
    /// The failure is acquired to be tried again: greater token, one more attempt, no checkpoint.
    Retry,
    /// The record becomes failed with [`Failure::ABANDONED`](crate::Failure::ABANDONED), and the
    /// claimant gets that failure. The end of the retention stays.
    Abandon,
    /// Nothing is written. The claimant gets the record, or the conflict.
    Report,
}

/// Decides a claim. `record` is the stored record of the key, `now` the store's clock.
///
/// The first row that fits counts:
///
/// | row | record | fingerprint | claim | decision |
/// | --- | --- | --- | --- | --- |
/// | C1 | none, released, or past its retention | any | any | [`Fresh`](ClaimDecision::Fresh) |
/// | C2 | live | another | any | [`Report`](ClaimDecision::Report), a conflict |
/// | C3 | in flight, stale or not | same | same attempt | [`Own`](ClaimDecision::Own) |
/// | C4 | in flight, not stale | same | another attempt | [`Report`](ClaimDecision::Report) |
/// | C5 | stale, may be taken over | same | may take over | [`TakeOver`](ClaimDecision::TakeOver) |
/// | C6 | stale | same | either side says fail | [`Abandon`](ClaimDecision::Abandon) |
/// | C7 | failed | same | retries failures | [`Retry`](ClaimDecision::Retry) |
/// | C8 | failed | same | reports failures | [`Report`](ClaimDecision::Report) |
/// | C9 | completed | same | any | [`Report`](ClaimDecision::Report) |
#[must_use]
pub fn decide(
    record: Option<&RecordFacts>,
    request: &ClaimRequest,
    now: Timestamp,
) -> ClaimDecision {
    let Some(record) = record.filter(|record| record.is_live(now)) else {
        return ClaimDecision::Fresh;
    };
    if record.fingerprint != *request.fingerprint() {
        return ClaimDecision::Report;
    }
    match record.state {
        RecordState::InFlight if record.attempt == request.attempt() => ClaimDecision::Own,
        RecordState::InFlight if !record.is_stale(now) => ClaimDecision::Report,
        RecordState::InFlight => match [record.on_stale, request.on_stale()] {
            [StalePolicy::TakeOver, StalePolicy::TakeOver] => ClaimDecision::TakeOver,
            _ => ClaimDecision::Abandon,
        },
        RecordState::Failed if request.on_failed() == FailedPolicy::Retry => ClaimDecision::Retry,
        RecordState::Failed | RecordState::Completed | RecordState::Released => {
            ClaimDecision::Report
        }
    }
}

/// What a step of a claim's holder does with the record that it meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepDecision {
    /// The step is taken.
    Apply,
    /// The step was taken before, so it succeeds and nothing is written.
    Done,
    /// [`ClaimLost`](crate::ErrorKind::ClaimLost), and nothing is written.
    Lost,
    /// [`AlreadySealed`](crate::ErrorKind::AlreadySealed), and nothing is written.
    AlreadySealed,
}

/// Decides a completion or a failure. `is_same` returns whether the record is sealed with the same
/// result; it is called for a sealed record only.
///
/// | row | record | decision |
/// | --- | --- | --- |
/// | S1 | none, released, past its retention, or of another token or attempt | [`Lost`](StepDecision::Lost) |
/// | S2 | in flight, stale or not | [`Apply`](StepDecision::Apply) |
/// | S3 | sealed with the same result | [`Done`](StepDecision::Done) |
/// | S4 | sealed with another result | [`AlreadySealed`](StepDecision::AlreadySealed) |
#[must_use]
pub fn decide_seal(
    record: Option<&RecordFacts>,
    claim: &Claim,
    is_same: impl FnOnce() -> bool,
    now: Timestamp,
) -> StepDecision {
    match owned(record, claim, now).map(|record| record.state) {
        Some(RecordState::InFlight) => StepDecision::Apply,
        Some(RecordState::Completed | RecordState::Failed) => match is_same() {
            true => StepDecision::Done,
            false => StepDecision::AlreadySealed,
        },
        Some(RecordState::Released) | None => StepDecision::Lost,
    }
}

/// Decides a release.
///
/// | row | record | decision |
/// | --- | --- | --- |
/// | R1 | released, of this token and attempt | [`Done`](StepDecision::Done) |
/// | R2 | none, past its retention, or of another token or attempt | [`Lost`](StepDecision::Lost) |
/// | R3 | in flight, stale or not | [`Apply`](StepDecision::Apply) |
/// | R4 | sealed | [`Lost`](StepDecision::Lost) |
#[must_use]
pub fn decide_release(record: Option<&RecordFacts>, claim: &Claim, now: Timestamp) -> StepDecision {
    let is_done =
        |record: &RecordFacts| record.state == RecordState::Released && record.is_owned_by(claim);
    match record {
        Some(record) if is_done(record) => StepDecision::Done,
        record => decide_renewal(record, claim, now),
    }
}

/// Decides a renewal or a checkpoint.
///
/// | row | record | decision |
/// | --- | --- | --- |
/// | N1 | none, released, past its retention, or of another token or attempt | [`Lost`](StepDecision::Lost) |
/// | N2 | in flight, stale or not | [`Apply`](StepDecision::Apply) |
/// | N3 | sealed | [`Lost`](StepDecision::Lost) |
#[must_use]
pub fn decide_renewal(record: Option<&RecordFacts>, claim: &Claim, now: Timestamp) -> StepDecision {
    match owned(record, claim, now).map(|record| record.state) {
        Some(RecordState::InFlight) => StepDecision::Apply,
        _ => StepDecision::Lost,
    }
}

/// Returns the live record, if the claim is its latest acquisition.
fn owned<'r>(
    record: Option<&'r RecordFacts>,
    claim: &Claim,
    now: Timestamp,
) -> Option<&'r RecordFacts> {
    record.filter(|record| record.is_live(now) && record.is_owned_by(claim))
}

/// Returns whether a claim has met a stale record that has to be failed, by the record's policy or
/// its own.
#[must_use]
pub fn is_abandoned(outcome: &ClaimOutcome, request: &ClaimRequest) -> bool {
    matches!(outcome, ClaimOutcome::InFlight(held) if held.is_stale()
        && (held.on_stale == StalePolicy::Fail || request.on_stale() == StalePolicy::Fail))
}
