//! Validation: every change is one step of a recorded call, every answer one of a state that the key
//! had meanwhile.

use std::collections::BTreeMap;
use std::fmt;

use super::coverage::{Coverage, of_answer, of_step};
use super::{Change, Row, Trace};
use crate::history::ReadError;
use crate::search::Operation;
use crate::spec::{ABANDONED, Answer, Body, Fly, KeyState, Op, Pattern, Span, step, unify};

/// Why a line contradicts the specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the line, from 1, in the file of the trace.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

/// What the validation of a trace found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// What contradicts the specification: the first of each key.
    pub refused: Vec<Refusal>,
    /// How often each kind of transition was seen.
    pub coverage: Coverage,
    /// The calls that took effect, and then looked again and found what had become of it.
    pub repeated: usize,
}

impl Verdict {
    /// Returns whether nothing contradicts the specification.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.refused.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for refusal in &self.refused {
            writeln!(f, "line {}: {}", refusal.line, refusal.why)?;
        }
        if self.repeated > 0 {
            let count = self.repeated;
            writeln!(f, "{count} calls took effect, and then looked again")?;
        }
        write!(f, "{}", self.coverage)
    }
}

/// Checks that each change is one step of a recorded call in whose time it is, that no call has two
/// effects, that a call which says that it did nothing has none, that each acknowledged effect is in
/// the log, and that each other answer is that of a state which the key had during the call. Where the
/// head says that calls ask again, one may have taken effect before that.
///
/// # Errors
///
/// [`ReadError::Clocks`].
pub fn validate(trace: &Trace) -> Result<Verdict, ReadError> {
    let history = trace.calls.history()?;
    let is_sweep = |operation: &&Operation| operation.call.op == Op::Sweep;
    // A history tells each key the sweeps that an answer may show; the log shows all.
    let sweeps: Vec<&Operation> = history.of_all.iter().filter(is_sweep).collect();
    let mut keys: BTreeMap<&str, OfKey<'_>> = BTreeMap::new();
    for (key, operations) in &history.keys {
        let of_key = operations.iter().filter(|operation| !is_sweep(operation));
        keys.insert(key, OfKey::new(of_key.chain(sweeps.iter().copied())));
    }
    // The calls of a key are in the order of the file; sweeps follow them.
    let mut next: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, seen) in trace.calls.seen.iter().enumerate() {
        let key = seen.invocation.k.as_str();
        let number = next.entry(key).or_default();
        if let Some(of_key) = keys.get_mut(key) {
            of_key.calls[*number].line = trace.call_lines[at].1;
        }
        *number += 1;
    }
    let mut verdict = Verdict::default();
    // A change that comes after one of a call cannot be one of a call that had returned before.
    let mut invoked = i64::MIN;
    for (at, change) in trace.changes.iter().enumerate() {
        let line = trace.change_lines[at];
        let asks_again = history.head.asks_again;
        let Some(of_key) = keys.get_mut(change.k.as_str()) else {
            let why = "a record changed that nobody called for".to_owned();
            verdict.refused.push(Refusal { line, why });
            continue;
        };
        of_key.change(change, line, asks_again, &mut invoked, &mut verdict);
    }
    for of_key in keys.values() {
        of_key.answers(&mut verdict);
    }
    verdict.refused.sort_by_key(|refusal| refusal.line);
    Ok(verdict)
}

struct Called<'a> {
    operation: &'a Operation,
    line: usize,
    /// The number of the change that is its effect.
    effect: Option<usize>,
}

/// The call that explains a change.
struct Explained {
    at: usize,
    /// The state after it.
    state: KeyState,
    /// Whether its answer tells of a later look.
    is_hidden: bool,
    /// Between which instants the change came, whichever of all calls that would do it was: when the
    /// first of them was invoked, and when the last had returned.
    time: Span,
}

impl Called<'_> {
    /// Returns the state after the call, if the change may be its effect. With `is_hidden` its answer
    /// tells of a later look.
    fn explains(
        &self,
        present: &KeyState,
        change: &Change,
        row: &Row,
        invoked: i64,
        is_hidden: bool,
    ) -> Option<KeyState> {
        let operation = self.operation;
        let is_sweep = operation.call.op == Op::Sweep;
        let returned = operation.returned.unwrap_or(i64::MAX);
        let is_too_early = change.now.is_some_and(|now| now < operation.window.lo);
        // Where nobody was told, no effect is known to be the last.
        let may_repeat = is_sweep || is_hidden && operation.answer == Answer::Unknown;
        let is_spent = self.effect.is_some() && !may_repeat;
        if is_spent || is_too_early || returned < invoked {
            return None;
        }
        let looked_again;
        let operation = match is_hidden {
            true if !may_look_again(operation) => return None,
            true => {
                looked_again = operation.hidden();
                &looked_again
            }
            false => operation,
        };
        effect(present, operation).find_map(|state| row.narrow(state))
    }
}

struct OfKey<'a> {
    calls: Vec<Called<'a>>,
    /// The states in the server's order; the first is that of a fresh key.
    states: Vec<KeyState>,
    /// When each change came; `None` for a purge or a sweep.
    times: Vec<Option<Span>>,
    is_refused: bool,
}

impl<'a> OfKey<'a> {
    fn new(operations: impl Iterator<Item = &'a Operation>) -> Self {
        let called = |operation| Called {
            operation,
            line: 0,
            effect: None,
        };
        Self {
            calls: operations.map(called).collect(),
            states: vec![KeyState::new()],
            times: Vec::new(),
            is_refused: false,
        }
    }

    fn present(&self) -> &KeyState {
        // There is always the first.
        &self.states[self.states.len() - 1]
    }

    fn refuse(&mut self, verdict: &mut Verdict, line: usize, why: String) {
        self.is_refused = true;
        verdict.refused.push(Refusal { line, why });
    }

    fn change(
        &mut self,
        change: &Change,
        line: usize,
        asks_again: bool,
        invoked: &mut i64,
        verdict: &mut Verdict,
    ) {
        if self.is_refused {
            return;
        }
        let Some(row) = &change.row else {
            return self.purge(change, line, verdict);
        };
        let Some(found) = self.call_of(change, row, *invoked, asks_again) else {
            let why = format!(
                "no call explains the change to {row:?} at {}; before it: {:?}",
                change.at,
                self.present()
            );
            return self.refuse(verdict, line, why);
        };
        *invoked = (*invoked).max(found.time.lo);
        let operation = self.calls[found.at].operation;
        verdict
            .coverage
            .count(of_step(self.present(), operation, &found.state));
        let is_sweep = operation.call.op == Op::Sweep;
        if found.is_hidden {
            verdict.repeated += 1;
        } else if !is_sweep {
            self.calls[found.at].effect = Some(self.states.len());
        }
        self.times.push((!is_sweep).then_some(found.time));
        self.states.push(found.state);
    }

    /// Returns the call whose effect a change is, and the state after it.
    fn call_of(
        &self,
        change: &Change,
        row: &Row,
        invoked: i64,
        asks_again: bool,
    ) -> Option<Explained> {
        let mut found = None;
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        let hidden: &[bool] = if asks_again { &[false, true] } else { &[false] };
        for (at, called) in self.calls.iter().enumerate() {
            for &is_hidden in hidden {
                let Some(state) = called.explains(self.present(), change, row, invoked, is_hidden)
                else {
                    continue;
                };
                first = first.min(called.operation.invoked);
                last = last.max(called.operation.returned.unwrap_or(i64::MAX));
                // Of several that would do, that which excludes the fewest others.
                let urgency = urgency(called.operation, invoked, is_hidden);
                if found.as_ref().is_none_or(|(other, _)| urgency < *other) {
                    found = Some((urgency, (at, state, is_hidden)));
                }
            }
        }
        let (_, (at, state, is_hidden)) = found?;
        let time = Span {
            lo: first,
            hi: last,
        };
        Some(Explained {
            at,
            state,
            is_hidden,
            time,
        })
    }

    /// The record is deleted: it has expired, or was released.
    fn purge(&mut self, change: &Change, line: usize, verdict: &mut Verdict) {
        let now = change.now.unwrap_or(i64::MAX);
        let (kind, may) = match &self.present().body {
            Body::Absent => ("", false),
            Body::Tomb(_) => ("purge of a released claim", true),
            Body::Fly(fly) => (
                "purge of an expired record",
                fly.lease.lo.saturating_add(fly.kept) <= now,
            ),
            Body::Sealed(sealed) => ("purge of an expired record", sealed.expires.lo <= now),
        };
        if !may {
            let why = format!("a purge at {} took {:?}", change.at, self.present());
            return self.refuse(verdict, line, why);
        }
        verdict.coverage.count(kind);
        let state = KeyState {
            body: Body::Absent,
            ..self.present().clone()
        };
        self.times.push(None);
        self.states.push(state);
    }

    /// Checks what the callers were told.
    fn answers(&self, verdict: &mut Verdict) {
        if self.is_refused {
            return;
        }
        for called in &self.calls {
            let operation = called.operation;
            let is_silent = matches!(operation.answer, Answer::NotDone | Answer::Unknown);
            let is_beside = matches!(operation.call.op, Op::Sweep | Op::Loss | Op::TakeBack);
            if called.effect.is_some() || is_silent || is_beside {
                continue;
            }
            if let Some(kind) = self.told(operation) {
                verdict.coverage.count(kind);
                continue;
            }
            let why = match operation.answer {
                Answer::Acquired { .. } => "an acknowledged claim is not in the log".to_owned(),
                _ => format!(
                    "the answer {:?} to {:?} is that of no state that the key had meanwhile",
                    operation.answer, operation.call
                ),
            };
            verdict.refused.push(Refusal {
                line: called.line,
                why,
            });
            return;
        }
    }

    /// Returns which kind of answer without an effect this is, if some state of its time gives it.
    fn told(&self, operation: &Operation) -> Option<&'static str> {
        let returned = operation.returned.unwrap_or(i64::MAX);
        let (mut first, mut last) = (0, self.states.len() - 1);
        for (at, time) in self.times.iter().enumerate() {
            let Some(time) = time else {
                continue;
            };
            if time.hi < operation.invoked {
                first = at + 1;
            }
            if time.lo > returned {
                last = last.min(at);
            }
        }
        let states = self.states.get(first..=last)?;
        let tells = |state: &KeyState| without_effect(state, operation);
        states.iter().any(tells).then(|| of_answer(operation))
    }
}

/// Returns whether a call may have taken effect, and then looked again, even several times: a claim, or a
/// write for a claim that had ended when it looked.
fn may_look_again(operation: &Operation) -> bool {
    match operation.call.op {
        Op::Claim { .. } => operation.answer != Answer::NotDone,
        _ => operation.answer == Answer::Lost,
    }
}

/// Returns the order in which calls take a change that several of them explain. First come those whose
/// answer demands one: an acquired claim says which, and a claim that tries failures again answers with
/// one only if it has itself recorded it. Then come those whose answer demands one unless the record was
/// so already. Then comes the call that was invoked first, because what had returned before it can no
/// longer come after it, and of those that were already invoked that which returned first, and that whose
/// answer tells of this change.
fn urgency(operation: &Operation, invoked: i64, is_hidden: bool) -> (u8, i64, i64, bool) {
    let demands = match (&operation.answer, &operation.call.op) {
        _ if is_hidden => 2,
        (Answer::Acquired { .. }, _) | (Answer::Failed { .. }, Op::Claim { retry: true, .. }) => 0,
        (Answer::Done, Op::Renew { .. } | Op::Save { .. }) => 1,
        _ => 2,
    };
    let returned = operation.returned.unwrap_or(i64::MAX);
    let invoked = operation.invoked.max(invoked);
    (demands, invoked, returned, is_hidden)
}

/// Returns the states after the call where it writes.
fn effect<'o>(
    state: &KeyState,
    operation: &'o Operation,
) -> impl Iterator<Item = KeyState> + use<'o> {
    let before = state.body.clone();
    steps(state, operation).filter_map(move |(after, pattern)| {
        let writes = after.body != before || rewrites(operation, &pattern);
        let after = unify(after, &pattern, &operation.answer)?;
        writes.then_some(after)
    })
}

/// Returns whether the call leaves this state as it is and gives its answer.
fn without_effect(state: &KeyState, operation: &Operation) -> bool {
    // The log would show the purge that excuses this answer.
    let is_tomb =
        matches!(&state.body, Body::Tomb(tomb) if tomb.token.contains(operation.call.token));
    if is_tomb && operation.call.op == Op::Release && operation.answer == Answer::Lost {
        return false;
    }
    steps(state, operation).any(|(after, pattern)| {
        let claims = matches!(pattern.lowest(), Answer::Acquired { .. });
        !claims
            && is_as_before(&after, state)
            && unify(after, &pattern, &operation.answer).is_some()
    })
}

/// Returns whether the record may be the same: some servers do not log a row that is written again as
/// it was, such as by a renewal that is not longer.
fn is_as_before(after: &KeyState, before: &KeyState) -> bool {
    match (&after.body, &before.body) {
        (Body::Fly(after), Body::Fly(before)) if after.lease.contains(before.lease.lo) => {
            let lease = before.lease;
            Fly {
                lease,
                ..after.clone()
            } == *before
        }
        (after, before) => after == before,
    }
}

/// A record that was there when a purge came may still be read as such, and one that has expired by
/// the row may be live for the call: the state is exact, the time of the call is not.
fn steps(
    state: &KeyState,
    operation: &Operation,
) -> impl Iterator<Item = (KeyState, Pattern)> + use<> {
    let state = KeyState {
        clock: i64::MIN,
        ..state.clone()
    };
    let window: Span = operation.window;
    step(&state, &operation.call, window).into_iter()
}

/// Returns whether the call writes a record even where the record stays as it is.
fn rewrites(operation: &Operation, pattern: &Pattern) -> bool {
    match pattern.lowest() {
        Answer::Acquired { .. } => true,
        Answer::Done => matches!(operation.call.op, Op::Renew { .. } | Op::Save { .. }),
        _ => false,
    }
}

/// Returns whether this is the failure of an abandoned claim.
pub(super) fn is_abandoned(state: &KeyState) -> bool {
    matches!(&state.body, Body::Sealed(sealed) if sealed.seal == ABANDONED)
}
