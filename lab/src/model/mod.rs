//! Models: every interleaving of a few callers, with the specification beside each.
//!
//! The model has a database, a cache in front of it, callers and time. Every answer of the cache is
//! compared with the specification's. A *configuration* says what is explored, and what has to come
//! of it: all states without a contradiction, or *the* counterexample of a cache with one mistake. A
//! search that is cut short has neither. The README says which code each action stands for.

mod explore;
mod hybrid;
mod table;

use std::fmt;

use serde::Serialize;

pub use self::table::configurations;

use self::explore::{Explored, explore};

/// A model with its parameters, and what has to come of it.
#[derive(Debug, Clone, Copy)]
pub struct Configuration {
    name: &'static str,
    is_small: bool,
    scope: hybrid::Scope,
    mutant: Option<Mutant>,
    expected: Expected,
    /// The transitions that have to happen.
    kinds: &'static [&'static str],
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
    /// The actions that lead to the contradiction.
    #[serde(skip)]
    pub path: Vec<String>,
}

impl Configuration {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether continuous integration may draw it: the others take minutes.
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
    let hybrid = hybrid::Hybrid::new(configuration.scope, configuration.mutant);
    configuration.judged(explore(hybrid))
}

impl Configuration {
    fn judged(&self, explored: Explored) -> Outcome {
        let is_missing = |kind: &&&str| !explored.kinds.contains(**kind);
        let missing: Vec<_> = self.kinds.iter().filter(is_missing).copied().collect();
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

/// One mistake of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    TicketAfterRead,
    EpochKeptByLostCache,
    LifetimeFromStore,
    InvalidateBeforeDelete,
    InvalidateKeepsEpoch,
    InFlightPromoted,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(expected: Expected, explored: Explored) -> (String, bool, bool) {
        let configuration = Configuration {
            expected,
            kinds: &["claim: acquired"],
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
