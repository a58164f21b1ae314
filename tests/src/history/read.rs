//! [`History`]: calls by key, in the store's time.

use std::collections::BTreeMap;

use super::epochs::Epochs;
use super::{Calls, Head, ReadError, Seen};
use crate::search::Operation;
use crate::spec::{Answer, Op};

/// How often a fault may take back that a sweep without an answer failed the same claim. An order
/// that needs more is not found.
const MOST_TAKEN_BACK: usize = 3;

/// The operations of a run, by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The first line.
    pub head: Head,
    /// The operations of each key, and what beside them may have changed it.
    pub keys: BTreeMap<String, Vec<Operation>>,
    /// Sweeps and faults, which are about every key, in the order in which they began.
    pub of_all: Vec<Operation>,
}

impl History {
    pub(super) fn of(calls: &Calls) -> Result<Self, ReadError> {
        let (head, seen) = (calls.head.clone(), &calls.seen);
        let epochs = Epochs::of(seen, head.quantum)?;
        let mut keys: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
        let mut sweeps = Vec::new();
        for one in seen {
            let operation = operation(one, &epochs);
            match one.invocation.call.op {
                Op::Sweep | Op::Loss | Op::TakeBack | Op::Clock { .. } => sweeps.push(operation),
                _ => {
                    let of_key = keys.entry(one.invocation.k.clone()).or_default();
                    let is_answered =
                        !matches!(operation.answer, Answer::Unknown | Answer::NotDone);
                    if is_answered && operation.over_step {
                        // A store that asks again may decide before the step, too: a hidden
                        // effect, then the look that answers.
                        of_key.push(operation.hidden());
                    }
                    of_key.push(operation);
                }
            }
        }
        sweeps.sort_by_key(|sweep: &Operation| sweep.invoked);
        // The latest end up to each: none before it runs at a later instant.
        let ends: Vec<i64> = sweeps
            .iter()
            .scan(i64::MIN, |latest, sweep| {
                *latest = end(sweep).max(*latest);
                Some(*latest)
            })
            .collect();
        let faults = sweeps.iter().filter(|sweep| sweep.call.op != Op::Sweep);
        let faults = faults.count().min(MOST_TAKEN_BACK);
        for operations in keys.values_mut() {
            let first = operations.iter().map(|operation| operation.invoked).min();
            let last = operations
                .iter()
                .map(|operation| operation.returned.unwrap_or(i64::MAX));
            let (first, last) = (first.unwrap_or(i64::MAX), last.max().unwrap_or(i64::MIN));
            // Each can be failed by a sweep once, and again after a fault that took that back.
            let mut abandonable = operations.iter().filter(may_be_failed).count() * (1 + faults);
            // A sweep of another time changes nothing that an answer shows.
            let from = ends.partition_point(|end| *end < first);
            let to = sweeps.partition_point(|sweep| sweep.invoked <= last);
            for sweep in sweeps.get(from..to).unwrap_or_default() {
                let is_sweep = sweep.call.op == Op::Sweep;
                let is_open = is_sweep && sweep.answer == Answer::Unknown;
                if end(sweep) < first || is_sweep && abandonable == 0 {
                    continue;
                }
                // What an open sweep may do, an earlier open one may do, too.
                abandonable -= usize::from(is_open);
                operations.push(sweep.clone());
            }
        }
        Ok(Self {
            head,
            keys,
            of_all: sweeps,
        })
    }
}

/// Returns when it was over. A sweep without an answer may run at any later time.
fn end(sweep: &Operation) -> i64 {
    let returned = sweep.returned.filter(|_| sweep.answer != Answer::Unknown);
    returned.unwrap_or(i64::MAX)
}

fn may_be_failed(operation: &&Operation) -> bool {
    matches!(operation.call.op, Op::Claim { takeover, .. } if !takeover)
}

fn operation(seen: &Seen, epochs: &Epochs) -> Operation {
    let answer = seen.answer.as_ref();
    Operation {
        call: seen.invocation.call.clone(),
        answer: answer.map_or(Answer::Unknown, |answer| answer.answer.clone()),
        invoked: seen.invocation.c0,
        returned: answer.map(|answer| answer.c1),
        window: epochs.window(seen),
        over_step: epochs.is_over_a_step(seen),
    }
}
