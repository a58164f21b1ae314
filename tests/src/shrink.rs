//! Shrinks a refused history to calls that somebody can read.

use crate::history::{Calls, ReadError, Seen};
use crate::oracle::judge;
use crate::search::Bounds;
use crate::spec::{ABANDONED, Answer, Op};

/// Keeps one refused key, and removes calls of it while the rest is still refused.
///
/// Only calls without an effect are removed, and what came after the refused answer: without a
/// claim, a renewal or a completion the other answers would be wrong, too, and the rest would be
/// refused for another reason. Returns the calls as they are if they are not refused.
///
/// # Errors
///
/// [`ReadError::Clocks`].
pub fn shrink(calls: &Calls, bounds: Bounds) -> Result<Calls, ReadError> {
    let judgement = judge(&calls.history()?, bounds);
    let Some(key) = judgement.refused.keys().next() else {
        return Ok(calls.clone());
    };
    let with = |seen: Vec<Seen>| Calls {
        head: calls.head.clone(),
        seen,
    };
    let is_refused = |seen: &[Seen]| {
        let history = with(seen.to_vec()).history();
        history.is_ok_and(|history| !judge(&history, bounds).refused.is_empty())
    };
    let of_key = |seen: &&Seen| seen.invocation.k == *key || seen.invocation.k.is_empty();
    let mut left: Vec<Seen> = calls.seen.iter().filter(of_key).cloned().collect();
    if !is_refused(&left) {
        return Ok(calls.clone());
    }
    left.sort_by_key(|seen| seen.invocation.c0);
    // What came later explains nothing.
    while left.len() > 1 && is_refused(&left[..left.len() - 1]) {
        left.pop();
    }
    // A sweep concerns only claims that may not be taken over.
    let sweeps_matter = left
        .iter()
        .any(|seen| matches!(seen.invocation.call.op, Op::Claim { takeover, .. } if !takeover));
    let mut at = left.len();
    while at > 0 {
        at -= 1;
        let rest = [&left[..at], &left[at + 1..]].concat();
        let is_idle = left[at].invocation.k.is_empty() && !sweeps_matter;
        if (is_idle || !has_effect(&left[at])) && is_refused(&rest) {
            left = rest;
        }
    }
    Ok(with(left))
}

/// Returns whether the call changed the key, or may have.
fn has_effect(seen: &Seen) -> bool {
    match seen.answer.as_ref().map(|answer| &answer.answer) {
        None | Some(Answer::Unknown | Answer::Done | Answer::Acquired { .. }) => true,
        // A claim that finds an abandoned one records that.
        Some(Answer::Failed { seal, .. }) => *seal == ABANDONED,
        Some(_) => false,
    }
}
