//! Models: every interleaving of a few callers, with the specification beside each.
//!
//! A model has a small store, callers, a network that loses and delays, and time. Every answer of
//! its store is compared with the specification's, and so is the record after each step. A
//! *configuration* says what is explored, and what has to come of it: all states without a
//! contradiction, or *the* counterexample of a store with one mistake. A search that is cut short
//! has neither. `MAPPING.md` says which code each model stands for.

mod beside;
mod explore;
mod hybrid;
mod kinds;
mod protocol;
mod row;
mod shard;
mod table;
mod transactions;

use std::fmt;

use serde::Serialize;

pub use self::table::configurations;

use self::explore::{Explored, explore};

/// A model with its parameters, and what has to come of it.
#[derive(Debug, Clone, Copy)]
pub struct Configuration {
    name: &'static str,
    is_small: bool,
    scope: Scope,
    mutant: Option<Mutant>,
    expected: Expected,
    /// The transitions that have to happen.
    kinds: &'static [&'static [&'static str]],
}

#[derive(Debug, Clone, Copy)]
enum Scope {
    Shard(shard::Scope),
    Protocol(protocol::Scope),
    Hybrid(hybrid::Scope),
    Transactions(transactions::Scope),
}

/// What has to come of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Every answer is as specified.
    Pass,
    /// A mistake shows as this contradiction.
    Counterexample(&'static str),
    /// A documented limit shows as this contradiction.
    Witness(&'static str),
}

/// What came of a configuration.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The configuration.
    pub name: String,
    /// How many states were visited.
    pub states: usize,
    /// The steps to the farthest of them.
    pub depth: usize,
    /// How long it took.
    pub seconds: f64,
    /// What had to come of it.
    pub expected: String,
    /// What came of it.
    pub got: String,
    /// Whether these are the same.
    pub is_expected: bool,
    /// Whether the search ended before it had an answer, or left out a kind of transition.
    pub is_undecided: bool,
    /// The kinds of transitions that happened.
    pub kinds: Vec<String>,
    /// The actions that lead to the contradiction.
    pub path: Vec<String>,
}

impl Configuration {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether it is one of those that continuous integration runs.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.is_small
    }

    /// Returns what has to come of it.
    #[must_use]
    pub fn expected(&self) -> String {
        self.expected.to_string()
    }
}

/// Explores a configuration.
#[must_use]
pub fn run(configuration: &Configuration) -> Outcome {
    let mutant = configuration.mutant;
    let explored = match configuration.scope {
        Scope::Shard(scope) => explore(shard::Model::new(scope, mutant)),
        Scope::Protocol(scope) => explore(protocol::Protocol::new(scope, mutant)),
        Scope::Hybrid(scope) => explore(hybrid::Hybrid::new(scope, mutant)),
        Scope::Transactions(scope) => explore(transactions::Transactions::new(scope, mutant)),
    };
    configuration.judged(explored)
}

impl Configuration {
    fn judged(&self, explored: Explored) -> Outcome {
        let is_missing = |kind: &&&str| !explored.kinds.contains(**kind);
        let required = self.kinds.iter().copied().flatten();
        let missing: Vec<_> = required.filter(is_missing).copied().collect();
        let (got, path) = match explored.wrong {
            Some((wrong, path)) => (wrong.0, path),
            None if explored.is_cut_short => (CUT_SHORT.to_owned(), Vec::new()),
            None if missing.is_empty() => (PASS.to_owned(), Vec::new()),
            None => (format!("never: {}", missing.join(", ")), Vec::new()),
        };
        let is_undecided = path.is_empty() && got != PASS;
        let is_expected = match self.expected {
            Expected::Pass => got == PASS,
            Expected::Counterexample(name) | Expected::Witness(name) => {
                !path.is_empty() && got == name
            }
        };
        Outcome {
            name: self.name.to_owned(),
            states: explored.states,
            depth: explored.depth,
            seconds: explored.seconds,
            expected: self.expected.to_string(),
            got,
            is_expected,
            is_undecided,
            kinds: explored.kinds.into_iter().collect(),
            path,
        }
    }
}

const PASS: &str = "pass";
const CUT_SHORT: &str = "cut short";

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str(PASS),
            Self::Counterexample(name) => f.write_str(name),
            Self::Witness(name) => write!(f, "witness: {name}"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            states,
            depth,
            seconds,
            expected,
            got,
            ..
        } = self;
        write!(
            f,
            "{name:<42} {states:>9} states, depth {depth:>3}, {seconds:>6.1} s  {got}"
        )?;
        match self.is_expected {
            true => Ok(()),
            false => write!(f, "  EXPECTED {expected}"),
        }
    }
}

/// One mistake of a store, a cache or a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    // Claims.
    OwnClaimForgotten,
    OwnClaimGetsNewToken,
    FingerprintIgnored,
    NeverExpires,
    PolicyOfRecordIgnored,
    StaleTooEarly,
    NeverStale,
    TakeoverKeepsToken,
    AcquisitionsNotCounted,
    CheckpointLostInTakeover,
    RetryKeepsCheckpoint,
    AbandonRestartsRetention,
    // Steps of a holder.
    TokenNotCompared,
    CompleteByAttempt,
    ReleaseByAttempt,
    CheckpointOfAnyone,
    LateHolderRefused,
    LateRenewalRefused,
    RenewalRevives,
    RenewalShortens,
    RenewalLeavesRetention,
    TombAcceptsSeal,
    SecondResultOverwrites,
    RepeatRefused,
    RepeatExtendsRetention,
    RetentionOfClaim,
    // Maintenance.
    FloorForgottenByPurge,
    StalePurged,
    SweepFailsHeld,
    SweepFailsTakeovers,
    SweepLeavesOwner,
    // Statements.
    ReadThenWrite,
    AbandonUnguarded,
    OwnedReadIgnoresToken,
    // The cache.
    TicketAfterRead,
    EpochKeptByLostCache,
    LifetimeFromStore,
    InvalidateBeforeDelete,
    InvalidateKeepsEpoch,
    InFlightPromoted,
    // Transactions.
    CompletionOutside,
    ClockOfTransaction,
    RetryWithNewKey,
    AutocommitFallback,
    SnapshotTrusted,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(expected: Expected, explored: Explored) -> (String, bool, bool) {
        let configuration = Configuration {
            expected,
            kinds: &[&["claim: acquired"]],
            ..configurations().remove(0)
        };
        let outcome = configuration.judged(explored);
        (outcome.got, outcome.is_expected, outcome.is_undecided)
    }

    fn explored() -> Explored {
        Explored {
            states: 1,
            depth: 1,
            seconds: 0.0,
            is_cut_short: false,
            kinds: ["claim: acquired".to_owned()].into(),
            wrong: None,
        }
    }

    fn wrong(name: &str) -> Explored {
        Explored {
            wrong: Some((explore::Wrong(name.to_owned()), vec!["Tick".to_owned()])),
            ..explored()
        }
    }

    #[test]
    fn only_the_whole_space_with_every_transition_passes() {
        let pass = |explored| of(Expected::Pass, explored);
        assert_eq!(pass(explored()), ("pass".to_owned(), true, false));
        let cut = Explored {
            is_cut_short: true,
            ..explored()
        };
        assert_eq!(pass(cut), ("cut short".to_owned(), false, true));
        let never = "never: claim: acquired".to_owned();
        let without = Explored {
            kinds: BTreeSet::new(),
            ..explored()
        };
        assert_eq!(pass(without), (never, false, true));
        assert_eq!(pass(wrong("one")), ("one".to_owned(), false, false));
    }

    #[test]
    fn a_mistake_has_to_show_as_its_own_contradiction() {
        let shows = |explored| of(Expected::Counterexample("one"), explored);
        assert_eq!(shows(wrong("one")), ("one".to_owned(), true, false));
        assert_eq!(shows(wrong("two")), ("two".to_owned(), false, false));
        assert_eq!(shows(explored()), ("pass".to_owned(), false, false));
        let cut = Explored {
            is_cut_short: true,
            ..explored()
        };
        assert_eq!(shows(cut), ("cut short".to_owned(), false, true));
    }
}
