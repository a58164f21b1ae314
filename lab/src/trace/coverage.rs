//! Coverage: how often each transition of the specification was seen.

use std::collections::BTreeMap;
use std::fmt;

use super::validate::{Verdict, is_abandoned};
use crate::search::Operation;
use crate::spec::{Answer, Body, KeyState, Op};

/// The kinds of transitions: those that a log shows, then those that change nothing.
pub const TRANSITIONS: [&str; 25] = [
    "claim of a fresh key",
    "claim after a release",
    "claim after a result expired",
    "claim after a claim expired",
    "claim by the same attempt",
    "takeover",
    "failure of an abandoned claim by the next",
    "retry of a failure",
    "completion",
    "failure",
    "renewal",
    "release",
    "checkpoint",
    "failure of an abandoned claim by a sweep",
    "purge of an expired record",
    "purge of a released claim",
    "conflict",
    "in flight",
    "replay of a result",
    "replay of a failure",
    "lost",
    "already sealed",
    "completion again",
    "release again",
    "read",
];

/// How often each kind of transition was seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage(BTreeMap<&'static str, u64>);

/// Returns the coverage of several traces together.
pub fn coverage<'v>(verdicts: impl IntoIterator<Item = &'v Verdict>) -> Coverage {
    let mut whole = Coverage::default();
    for (kind, times) in verdicts.into_iter().flat_map(|verdict| &verdict.coverage.0) {
        *whole.0.entry(kind).or_default() += times;
    }
    whole
}

impl Coverage {
    pub(super) fn count(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// Returns how often this kind was seen.
    #[must_use]
    pub fn times(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }

    /// Returns how often each kind was seen, those that were not left out.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.0
    }

    /// Returns the kinds that were not seen.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let is_missing = |kind: &&str| self.times(kind) == 0;
        TRANSITIONS.into_iter().filter(is_missing).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in TRANSITIONS {
            writeln!(f, "{:>9}  {kind}", self.times(kind))?;
        }
        Ok(())
    }
}

/// Returns the kind of this step.
pub(super) fn of_step(before: &KeyState, operation: &Operation, after: &KeyState) -> &'static str {
    match (&operation.call.op, &before.body) {
        (Op::Claim { .. }, _) if is_abandoned(after) => TRANSITIONS[6],
        (Op::Claim { .. }, body) => of_claim(body, operation, after),
        (Op::Complete { .. }, _) => TRANSITIONS[8],
        (Op::Fail { .. }, _) => TRANSITIONS[9],
        (Op::Renew { .. }, _) => TRANSITIONS[10],
        (Op::Release, _) => TRANSITIONS[11],
        (Op::Save { .. }, _) => TRANSITIONS[12],
        (Op::Sweep, _) => TRANSITIONS[13],
        (Op::Load | Op::Get | Op::Loss | Op::TakeBack | Op::Clock { .. }, _) => TRANSITIONS[24],
    }
}

fn of_claim(before: &Body, operation: &Operation, after: &KeyState) -> &'static str {
    let acquisitions = match &after.body {
        Body::Fly(fly) => fly.acquisitions,
        _ => 0,
    };
    match before {
        Body::Absent => TRANSITIONS[0],
        Body::Tomb(_) => TRANSITIONS[1],
        Body::Sealed(_) if acquisitions == 1 => TRANSITIONS[2],
        Body::Sealed(_) => TRANSITIONS[7],
        Body::Fly(fly) if fly.attempt == operation.call.attempt && acquisitions > 0 => {
            match &after.body {
                Body::Fly(next) if next.token == fly.token => TRANSITIONS[4],
                _ => TRANSITIONS[3],
            }
        }
        Body::Fly(_) if acquisitions == 1 => TRANSITIONS[3],
        Body::Fly(_) => TRANSITIONS[5],
    }
}

/// Returns the kind of an answer of a call that changed nothing.
pub(super) fn of_answer(operation: &Operation) -> &'static str {
    match (&operation.answer, &operation.call.op) {
        (_, Op::Get | Op::Load) => TRANSITIONS[24],
        (Answer::Conflict { .. }, _) => TRANSITIONS[16],
        (Answer::InFlight { .. }, _) => TRANSITIONS[17],
        (Answer::Completed { .. }, _) => TRANSITIONS[18],
        (Answer::Failed { .. }, _) => TRANSITIONS[19],
        (Answer::Lost, _) => TRANSITIONS[20],
        (Answer::AlreadySealed, _) => TRANSITIONS[21],
        (_, Op::Release) => TRANSITIONS[23],
        _ => TRANSITIONS[22],
    }
}
