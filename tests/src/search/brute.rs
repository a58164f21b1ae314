//! The search by trying every order, which judges the other one.

use super::frontier::successors;
use super::{Operation, is_open, is_optional};
use crate::spec::{Answer, KeyState, Op};

/// Returns whether some order of the operations explains every answer with at most so many losses, by
/// trying all that agree with real time. For a few operations only: the time grows with the
/// factorial of their number.
#[must_use]
pub fn brute_force(operations: &[Operation], losses: usize) -> bool {
    let real: Vec<&Operation> = operations
        .iter()
        .filter(|operation| operation.answer != Answer::NotDone)
        .collect();
    extend(&[Reached::first()], &real, losses)
}

/// A state, and how it came about.
#[derive(Clone)]
struct Reached {
    state: KeyState,
    /// Whether a call that had an answer changed the record.
    is_answered: bool,
}

impl Reached {
    fn first() -> Self {
        Self {
            state: KeyState::new(),
            is_answered: false,
        }
    }
}

/// Tries every operation that may come next after these states, of which the last is the present.
fn extend(states: &[Reached], left: &[&Operation], losses: usize) -> bool {
    let may_be_left = |operation: &&&Operation| is_open(operation) || is_optional(operation);
    if left.iter().filter(may_be_left).count() == left.len() {
        return true;
    }
    let Some((last, past)) = states.split_last() else {
        return false;
    };
    let present = &last.state;
    let returned = left
        .iter()
        .filter(|operation| !is_open(operation))
        .filter_map(|operation| operation.returned);
    let first_answer = returned.min().unwrap_or(i64::MAX);
    left.iter().enumerate().any(|(at, next)| {
        // An operation that returned before another was invoked comes before it.
        if next.invoked > first_answer {
            return false;
        }
        let mut rest = left.to_vec();
        rest.remove(at);
        if is_optional(next) && extend(states, &rest, losses) {
            return true;
        }
        if let op @ (Op::Loss | Op::TakeBack) = &next.call.op {
            return losses > 0
                && (0..past.len()).any(|at| {
                    let is_safe = states[at + 1..].iter().any(|later| later.is_answered);
                    let mut states = past[..at].to_vec();
                    states.push(Reached {
                        state: present.lost(&past[at].state.body),
                        is_answered: past[at].is_answered,
                    });
                    (*op == Op::Loss || !is_safe) && extend(&states, &rest, losses - 1)
                });
        }
        if next.call.op == (Op::Clock { forgets: true })
            && losses > 0
            && successors(present, next).any(|(state, is_answered)| {
                let mut states = states.to_vec();
                state.forgotten().is_some_and(|state| {
                    states.push(Reached { state, is_answered });
                    extend(&states, &rest, losses - 1)
                })
            })
        {
            return true;
        }
        successors(present, next).any(|(state, is_answered)| {
            let mut states = states.to_vec();
            states.push(Reached { state, is_answered });
            extend(&states, &rest, losses)
        })
    })
}
