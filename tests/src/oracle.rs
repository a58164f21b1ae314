//! The oracle, which judges histories.
//!
//! A history contains what racing callers saw. The oracle knows nothing of the store: it searches,
//! for each key, an order of the calls in which the [specification](crate::spec) gives every answer.
//! A call without an answer may have happened or not: it may explain a missing winner, never a second
//! one.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread::{self, available_parallelism};
use std::{fmt, panic};

use crate::history::History;
use crate::search::{Bounds, Operation, Verdict, explain};
use crate::spec::{Answer, Op};

/// The verdicts on the keys of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The number of keys.
    pub keys: usize,
    /// The number of calls on them.
    pub calls: usize,
    /// The widest frontier of a search.
    pub widest: usize,
    /// The fewest losses that explain the answers, over all keys.
    pub losses: usize,
    /// The keys that are explained only if a call took effect twice: the store asked again.
    pub repeated: usize,
    /// The keys whose answers no order explains, each with the reason.
    pub refused: BTreeMap<String, String>,
    /// The keys that the search gave up, each with the reason.
    pub undecided: BTreeMap<String, String>,
}

impl Judgement {
    /// Returns whether every key is explained: an undecided one is not.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.refused.is_empty() && self.undecided.is_empty()
    }
}

/// Judges every key.
#[must_use]
pub fn judge(history: &History, bounds: Bounds) -> Judgement {
    let mut judgement = Judgement {
        keys: history.keys.len(),
        calls: 0,
        widest: 0,
        losses: 0,
        repeated: 0,
        refused: BTreeMap::new(),
        undecided: BTreeMap::new(),
    };
    let verdicts = verdicts(history, bounds);
    for ((key, operations), (verdict, is_repeated)) in history.keys.iter().zip(verdicts) {
        let is_of_key = |operation: &&Operation| {
            !matches!(
                operation.call.op,
                Op::Sweep | Op::Loss | Op::TakeBack | Op::Clock { .. }
            )
        };
        judgement.calls += operations.iter().filter(is_of_key).count();
        judgement.repeated += usize::from(is_repeated);
        match verdict {
            Verdict::Explained { widest, losses } => {
                judgement.widest = judgement.widest.max(widest);
                judgement.losses += losses;
            }
            Verdict::Refused { at, states } => {
                let why = in_words(operations, at, &states);
                judgement.refused.insert(key.clone(), why);
            }
            Verdict::Undecided { why } => {
                judgement.undecided.insert(key.clone(), why);
            }
        }
    }
    judgement
}

/// Explains every key, in their order, on all processors. With each comes whether a claim on it took
/// effect, and then looked again.
fn verdicts(history: &History, bounds: Bounds) -> Vec<(Verdict, bool)> {
    let keys: Vec<&Vec<Operation>> = history.keys.values().collect();
    let processors = available_parallelism().map_or(1, NonZero::get);
    let each = keys.len().div_ceil(processors).max(1);
    let of_key = |operations: &&Vec<Operation>| {
        let verdict = explain(operations, bounds);
        if verdict.is_refused() && history.head.asks_again {
            for times in LOOKS {
                let with_hidden = explain(&with_hidden(operations, times), bounds);
                // A search that gives up refuses nothing.
                if !with_hidden.is_refused() {
                    return (with_hidden, true);
                }
            }
        }
        (verdict, false)
    };
    thread::scope(|scope| {
        let chunks = keys.chunks(each);
        let threads: Vec<_> = chunks
            .map(|chunk| scope.spawn(move || chunk.iter().map(of_key).collect::<Vec<_>>()))
            .collect();
        let verdicts = threads.into_iter().map(|thread| thread.join());
        let verdicts = verdicts.map(|verdicts| match verdicts {
            Ok(verdicts) => verdicts,
            Err(payload) => panic::resume_unwind(payload),
        });
        verdicts.flatten().collect()
    })
}

/// How often a claim looks again: where its lease ends before it looks, a sweep or another claim may
/// fail what it wrote, and it tries the failure again. A store gives up after sixteen times.
const LOOKS: [usize; 5] = [1, 2, 4, 8, 15];

/// Adds the hidden effects of answered claims, of each this many.
fn with_hidden(operations: &[Operation], times: usize) -> Vec<Operation> {
    let claims = operations.iter().filter(|operation| {
        let is_answered = !matches!(operation.answer, Answer::Unknown | Answer::NotDone);
        is_answered && matches!(operation.call.op, Op::Claim { .. })
    });
    let hidden = claims.flat_map(|claim| std::iter::repeat_n(claim.hidden(), times));
    operations.iter().cloned().chain(hidden).collect()
}

/// Returns the answer that fits nowhere, what came before it, and the states that were left.
fn in_words(operations: &[Operation], at: usize, states: &[String]) -> String {
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_by_key(|at| operations[*at].invoked);
    let first = operations.iter().map(|operation| operation.invoked).min();
    let first = first.unwrap_or(0);
    let mut text = String::new();
    for number in order {
        let operation = &operations[number];
        let mark = if number == at { "→" } else { " " };
        let end = operation.returned.map_or("…".to_owned(), |end| {
            end.saturating_sub(first).to_string()
        });
        text += &format!(
            "{mark} {} to {end} µs: {:?} attempt {:x} token {}: {:?}\n",
            operation.invoked.saturating_sub(first),
            operation.call.op,
            operation.call.attempt,
            operation.call.token,
            operation.answer,
        );
    }
    text += "  The answer at the arrow fits none of these states:\n";
    for state in states {
        text += &format!("    {state}\n");
    }
    text
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.refused.is_empty(), self.undecided.is_empty()) {
            (true, true) => "accepted",
            (true, false) => "not proven",
            (false, _) => "refused",
        };
        writeln!(
            f,
            "{verdict}: {} calls on {} keys; {} refused, {} undecided, {} losses; widest frontier {}",
            self.calls,
            self.keys,
            self.refused.len(),
            self.undecided.len(),
            self.losses,
            self.widest
        )?;
        if self.repeated > 0 {
            let repeated = self.repeated;
            writeln!(
                f,
                "on {repeated} keys a call took effect, and then looked again"
            )?;
        }
        for (key, why) in &self.refused {
            writeln!(f, "\nkey {key} is refused:\n{why}")?;
        }
        for (key, why) in &self.undecided {
            writeln!(f, "\nkey {key} is undecided: {why}")?;
        }
        Ok(())
    }
}
