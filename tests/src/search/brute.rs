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
    extend(&[KeyState::new()], &real, losses)
}

/// Tries every operation that may come next after these states, of which the last is the present.
fn extend(states: &[KeyState], left: &[&Operation], losses: usize) -> bool {
    let may_be_left = |operation: &&&Operation| is_open(operation) || is_optional(operation);
    if left.iter().filter(may_be_left).count() == left.len() {
        return true;
    }
    let Some((present, past)) = states.split_last() else {
        return false;
    };
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
        if next.call.op == Op::Loss {
            return losses > 0
                && (0..past.len()).any(|at| {
                    let mut states = past[..at].to_vec();
                    states.push(present.lost(&past[at].body));
                    extend(&states, &rest, losses - 1)
                });
        }
        if next.call.op == (Op::Clock { forgets: true })
            && losses > 0
            && successors(present, next).any(|state| {
                let mut states = states.to_vec();
                state.forgotten().is_some_and(|state| {
                    states.push(state);
                    extend(&states, &rest, losses - 1)
                })
            })
        {
            return true;
        }
        successors(present, next).any(|state| {
            let mut states = states.to_vec();
            states.push(state);
            extend(&states, &rest, losses)
        })
    })
}
