//! [`Answer`]: what a store answers, and whether an answer fits a successor.

use serde::{Deserialize, Serialize};

use super::{Body, KeyState, Span};

/// The answer to a call. In the specification tokens and ends of leases are bounds; in a history
/// they are exact, or the store did not say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "ans", rename_all = "snake_case")]
pub enum Answer {
    /// The claim was acquired.
    Acquired {
        /// Its token.
        tok: i64,
        /// The number of acquisitions since the key was fresh.
        n: u32,
        /// When its lease ends.
        lease_end: i64,
    },
    /// The holder's latest checkpoint.
    Checkpoint {
        /// Its hash; 0 without one.
        cp: u64,
    },
    /// Another attempt holds the key, or this is the record read.
    InFlight {
        /// The holder's token.
        tok: i64,
        /// When its lease ends.
        lease_end: i64,
    },
    /// The stored result.
    Completed {
        /// Its token.
        tok: i64,
        /// The hash of the result.
        seal: u64,
    },
    /// The recorded failure.
    Failed {
        /// Its token.
        tok: i64,
        /// The hash of the failure.
        seal: u64,
    },
    /// The key belongs to another request.
    Conflict {
        /// The token of the record.
        tok: i64,
        /// The stored fingerprint.
        fp: u64,
    },
    /// There is no record.
    Nothing,
    /// The operation took effect.
    Done,
    /// The claim is not held.
    Lost,
    /// It has another result.
    AlreadySealed,
    /// An error that promises that nothing happened.
    NotDone,
    /// An error, or no answer: it may have taken effect, now, later or never.
    Unknown,
}

/// What the specification answers: as [`Answer`], with the bounds of the token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    pub(super) answer: Answer,
    pub(super) token: Span,
    pub(super) lease: Span,
}

impl Pattern {
    /// Returns one answer of this pattern: that with the least token and the earliest end of the
    /// lease.
    #[must_use]
    pub fn lowest(&self) -> Answer {
        let mut answer = self.answer.clone();
        match &mut answer {
            Answer::Acquired { tok, lease_end, .. } | Answer::InFlight { tok, lease_end } => {
                (*tok, *lease_end) = (self.token.lo, self.lease.lo);
            }
            Answer::Completed { tok, .. }
            | Answer::Failed { tok, .. }
            | Answer::Conflict { tok, .. } => *tok = self.token.lo,
            _ => {}
        }
        answer
    }

    pub(super) fn plain(answer: Answer) -> Self {
        Self {
            answer,
            token: Span::at(0),
            lease: Span::at(0),
        }
    }
}

/// Returns the successor narrowed by the answer that the store gave; `None` if the two contradict
/// each other.
#[must_use]
pub fn unify(mut state: KeyState, pattern: &Pattern, given: &Answer) -> Option<KeyState> {
    let (token, lease_end) = match (&pattern.answer, given) {
        (_, Answer::Unknown) => return Some(state),
        (
            Answer::Acquired { n, .. },
            Answer::Acquired {
                tok,
                n: given_n,
                lease_end,
            },
        ) if n == given_n => (*tok, Some(*lease_end)),
        (Answer::InFlight { .. }, Answer::InFlight { tok, lease_end }) => (*tok, Some(*lease_end)),
        (Answer::Completed { seal, .. }, Answer::Completed { tok, seal: given })
        | (Answer::Failed { seal, .. }, Answer::Failed { tok, seal: given })
            if seal == given =>
        {
            (*tok, None)
        }
        (Answer::Conflict { fp, .. }, Answer::Conflict { tok, fp: given }) if fp == given => {
            (*tok, None)
        }
        (one, other) => {
            let is_plain = matches!(
                other,
                Answer::Nothing
                    | Answer::Done
                    | Answer::Lost
                    | Answer::AlreadySealed
                    | Answer::Checkpoint { .. }
            );
            return (is_plain && one == other).then_some(state);
        }
    };
    if !pattern.token.contains(token) {
        return None;
    }
    if let Some(of_record) = state.token_mut() {
        *of_record = Span::at(token);
    }
    state.floor = state.floor.max(token);
    if let (Some(lease_end), Body::Fly(fly)) = (lease_end, &mut state.body) {
        if !pattern.lease.contains(lease_end) {
            return None;
        }
        fly.lease = Span::at(lease_end);
    }
    Some(state)
}
