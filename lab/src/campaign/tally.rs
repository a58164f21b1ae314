//! [`Tally`]: what a history holds, in numbers.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::history::Calls;
use crate::spec::{Answer, Op};

/// What a history holds, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The claims that were answered.
    pub claims: u64,
    /// All calls.
    pub calls: u64,
    /// The keys.
    pub keys: u64,
    /// The calls without a known outcome.
    pub unknown: u64,
    /// The acquisitions of keys that somebody had acquired before.
    pub takeovers: u64,
    /// The claims that a stored result answered.
    pub replays: u64,
    /// The rows that callers committed with their results.
    #[serde(default)]
    pub rows: u64,
}

impl Tally {
    /// Counts the calls of a history.
    #[must_use]
    pub fn of(calls: &Calls) -> Self {
        let mut tally = Self::default();
        let mut keys: HashMap<&str, ()> = HashMap::new();
        for seen in &calls.seen {
            if seen.invocation.k.is_empty() {
                continue;
            }
            keys.insert(&seen.invocation.k, ());
            tally.calls += 1;
            let is_claim = matches!(seen.invocation.call.op, Op::Claim { .. });
            match seen.answer.as_ref().map(|answer| &answer.answer) {
                None | Some(Answer::Unknown) => tally.unknown += 1,
                Some(Answer::NotDone) => {}
                Some(answer) if is_claim => {
                    tally.claims += 1;
                    match answer {
                        Answer::Acquired { n, .. } if *n > 1 => tally.takeovers += 1,
                        Answer::Completed { .. } | Answer::Failed { .. } => tally.replays += 1,
                        _ => {}
                    }
                }
                Some(_) => {}
            }
        }
        tally.keys = keys.len() as u64;
        tally
    }

    /// Adds the numbers of another history.
    pub fn add(&mut self, other: Self) {
        self.claims += other.claims;
        self.calls += other.calls;
        self.keys += other.keys;
        self.unknown += other.unknown;
        self.takeovers += other.takeovers;
        self.replays += other.replays;
        self.rows += other.rows;
    }
}
