//! Shrinks a refused history to calls that somebody can read.

use crate::history::{Calls, ReadError, Seen};
use crate::oracle::judge;
use crate::search::Bounds;
use crate::spec::{ABANDONED, Answer, Op};

/// Keeps one refused key, and removes calls of it while the rest is still refused. Of the other keys
/// it keeps the few claims without which the store's clock is not known well enough.
///
/// Only calls without an effect are removed, and what came after the refused answer: without a
/// claim, a renewal or a completion the other answers would be wrong, too, and the rest would be
/// refused for another reason. Returns the calls as they are if they are not refused, or not without
/// the rest of the other keys.
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
        with(seen.to_vec()).history().is_ok_and(|mut history| {
            history.keys.retain(|name, _| name == key);
            !judge(&history, bounds).refused.is_empty()
        })
    };
    let of_key = |seen: &Seen| seen.invocation.k == *key || seen.invocation.k.is_empty();
    let (mut left, others): (Vec<Seen>, Vec<Seen>) = calls.seen.iter().cloned().partition(of_key);
    // The first claim of a key is explained without the rest of it.
    let others: Vec<Seen> = others.into_iter().filter(is_first_claim).collect();
    if !is_refused(&[&left[..], &others].concat()) {
        return Ok(calls.clone());
    }
    let others = fewest(others, |others| is_refused(&[&left, others].concat()));
    left.extend(others);
    left.sort_by_key(|seen| seen.invocation.c0);
    // What came later explains nothing, except what ran beside a call that is left.
    while let Some(last) = left.iter().rposition(|seen| seen.invocation.k == *key) {
        let rest = [&left[..last], &left[last + 1..]].concat();
        if !is_refused(&rest) {
            break;
        }
        left = rest;
    }
    let times = span(&left, key);
    left.retain(|seen| !seen.invocation.k.is_empty() || is_within(seen, times));
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

fn is_first_claim(seen: &Seen) -> bool {
    let answer = seen.answer.as_ref().map(|answer| &answer.answer);
    matches!(answer, Some(Answer::Acquired { n: 1, .. }))
}

/// Returns when the first call of the key began and the last one was over.
fn span(calls: &[Seen], key: &str) -> (i64, i64) {
    let of_key = || calls.iter().filter(|seen| seen.invocation.k == key);
    let began = of_key().map(|seen| seen.invocation.c0).min();
    let ended = of_key().map(end).max();
    (began.unwrap_or(i64::MIN), ended.unwrap_or(i64::MAX))
}

fn is_within(seen: &Seen, (began, ended): (i64, i64)) -> bool {
    end(seen) >= began && seen.invocation.c0 <= ended
}

/// Returns when it was over. A call without an answer may take effect at any later time.
fn end(seen: &Seen) -> i64 {
    let answer = seen.answer.as_ref();
    let answer = answer.filter(|answer| answer.answer != Answer::Unknown);
    answer.map_or(i64::MAX, |answer| answer.c1)
}

/// Removes calls while the rest does: all of them, then parts of half that size, down to single ones.
fn fewest(mut left: Vec<Seen>, does: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
    let mut size = left.len();
    while size > 0 {
        let mut at = 0;
        while at < left.len() {
            let end = left.len().min(at + size);
            let rest = [&left[..at], &left[end..]].concat();
            match does(&rest) {
                true => left = rest,
                false => at = end,
            }
        }
        size /= 2;
    }
    left
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
