//! [`Beside`]: the specification of a key, which takes the same calls as the modelled store.

use std::cmp::Ordering;

use super::explore::Wrong;
use crate::spec::{Answer, Body, Call, Fly, KeyState, Op, Span, step, unify};

/// The time between two ticks of a model, in microseconds. Stores round ends of leases by up to a
/// millisecond, which is less.
pub(super) const TICK: i64 = 10_000;

/// The key as the specification has it. A model knows when each call took effect, and what it was
/// answered, so one state is left after each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Beside(pub(super) KeyState);

impl Beside {
    pub(super) fn new() -> Self {
        Self(KeyState::new())
    }

    /// Takes the call at this instant; the answer has to be one of those that the specification
    /// has. Returns the name of the transition.
    pub(super) fn take(
        &mut self,
        call: &Call,
        now: i64,
        given: &Answer,
    ) -> Result<&'static str, Wrong> {
        let successors = step(&self.0, call, Span::at(now));
        let explained = successors
            .iter()
            .find_map(|(state, pattern)| unify(state.clone(), pattern, given));
        let given_name = answer_name(given);
        let Some(state) = explained else {
            let what = op_name(&call.op);
            let lowest: Vec<_> = successors.iter().map(|(_, it)| it.lowest()).collect();
            let difference = lowest.iter().find_map(|lowest| difference(given, lowest));
            let mut specified: Vec<_> = lowest.iter().map(answer_name).collect();
            specified.dedup();
            return Err(Wrong(match difference {
                Some(difference) => format!("{what}: {given_name} {difference}"),
                None => format!("{what}: {given_name}, not {}", specified.join(" or ")),
            }));
        };
        let kind = self.kind(call, now, given);
        self.0 = state;
        self.settle(now);
        Ok(kind)
    }

    /// Returns what the answer is in this state.
    fn kind(&self, call: &Call, now: i64, given: &Answer) -> &'static str {
        let is_own = |fly: &Fly| fly.attempt == call.attempt;
        match (given, &self.0.body) {
            (Answer::Acquired { .. }, Body::Absent) => "acquired",
            (Answer::Acquired { .. }, Body::Tomb(_)) => "acquired after a release",
            (Answer::Acquired { .. }, Body::Fly(fly)) if is_own(fly) => "acquired again",
            (Answer::Acquired { .. }, Body::Fly(_)) => "taken over",
            (Answer::Acquired { .. }, Body::Sealed(_)) => "tried again",
            (Answer::Failed { .. }, Body::Fly(_)) => "abandoned",
            (Answer::Done, Body::Fly(fly)) if fly.lease.hi <= now => "done late",
            (Answer::Done, Body::Sealed(_) | Body::Tomb(_)) => "done before",
            _ => answer_name(given),
        }
    }

    /// Compares the record that a reader finds, and the end of its retention.
    pub(super) fn observe(
        &mut self,
        now: i64,
        given: &Answer,
        expires: Option<i64>,
    ) -> Result<(), Wrong> {
        let get = Call {
            op: Op::Get,
            attempt: 0,
            token: 0,
        };
        self.take(&get, now, given)?;
        let (Some(expires), Body::Sealed(sealed)) = (expires, &mut self.0.body) else {
            return Ok(());
        };
        if !sealed.expires.contains(expires) {
            return Err(Wrong("get: sealed with another retention".to_owned()));
        }
        sealed.expires = Span::at(expires);
        Ok(())
    }

    /// Takes a sweep, which has failed the record or not.
    pub(super) fn sweep(&mut self, now: i64, has_failed: bool) -> Result<(), Wrong> {
        let sweep = Call {
            op: Op::Sweep,
            attempt: 0,
            token: 0,
        };
        match (step(&self.0, &sweep, Span::at(now)).pop(), has_failed) {
            (Some((state, _)), true) => self.0 = state,
            (None, false) => {}
            (Some(_), false) => return Err(Wrong("sweep: left, not failed".to_owned())),
            (None, true) => return Err(Wrong("sweep: failed, not left".to_owned())),
        }
        Ok(())
    }

    /// An expired record is as none, which keeps the states few.
    pub(super) fn settle(&mut self, now: i64) {
        let expires = match &self.0.body {
            Body::Absent | Body::Tomb(_) => None,
            Body::Fly(fly) => Some(fly.lease.hi + fly.kept),
            Body::Sealed(sealed) => Some(sealed.expires.hi),
        };
        if expires.is_some_and(|expires| expires <= now) {
            self.0.body = Body::Absent;
        }
        self.0.clock = now;
    }

    /// Moves all instants: the model counts them from now.
    pub(super) fn tick(&mut self) {
        match &mut self.0.body {
            Body::Absent | Body::Tomb(_) => {}
            Body::Fly(fly) => fly.lease = fly.lease.after(-TICK),
            Body::Sealed(sealed) => sealed.expires = sealed.expires.after(-TICK),
        }
        self.settle(0);
    }

    /// Gives every token the number that `rank` has for it.
    pub(super) fn rename(&mut self, rank: impl Fn(i64) -> i64) {
        self.0.floor = rank(self.0.floor);
        let token = match &mut self.0.body {
            Body::Absent => return,
            Body::Fly(fly) => &mut fly.token,
            Body::Sealed(sealed) => &mut sealed.token,
            Body::Tomb(tomb) => &mut tomb.token,
        };
        *token = Span::at(rank(token.lo));
    }

    /// Returns the token of the record.
    pub(super) fn token(&self) -> Option<i64> {
        match &self.0.body {
            Body::Absent => None,
            Body::Fly(fly) => Some(fly.token.lo),
            Body::Sealed(sealed) => Some(sealed.token.lo),
            Body::Tomb(tomb) => Some(tomb.token.lo),
        }
    }
}

/// Returns how two answers of one kind differ; `None` for two kinds.
fn difference(given: &Answer, lowest: &Answer) -> Option<&'static str> {
    if answer_name(given) != answer_name(lowest) {
        return None;
    }
    let (
        Answer::Acquired { tok, n, .. },
        Answer::Acquired {
            tok: least,
            n: specified,
            ..
        },
    ) = (given, lowest)
    else {
        return Some("with another content");
    };
    Some(match (n == specified, tok.cmp(least)) {
        (false, _) => "with another count",
        (true, Ordering::Less) => "with an old token",
        (true, Ordering::Equal) => "with another lease",
        (true, Ordering::Greater) => "with another token or lease",
    })
}

/// Returns what an operation is called.
pub(super) const fn op_name(op: &Op) -> &'static str {
    match op {
        Op::Claim { .. } => "claim",
        Op::Complete { .. } => "complete",
        Op::Fail { .. } => "fail",
        Op::Release => "release",
        Op::Renew { .. } => "renew",
        Op::Save { .. } => "save",
        Op::Load => "load",
        Op::Get => "get",
        Op::Sweep => "sweep",
        Op::Loss => "loss",
        Op::TakeBack => "take back",
        Op::Clock { .. } => "clock",
    }
}

/// Returns what an answer is called.
pub(super) const fn answer_name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Acquired { .. } => "acquired",
        Answer::Checkpoint { .. } => "checkpoint",
        Answer::InFlight { .. } => "in flight",
        Answer::Completed { .. } => "completed",
        Answer::Failed { .. } => "failed",
        Answer::Conflict { .. } => "conflict",
        Answer::Nothing => "nothing",
        Answer::Done => "done",
        Answer::Lost => "lost",
        Answer::AlreadySealed => "already sealed",
        Answer::NotDone => "not done",
        Answer::Unknown => "unknown",
    }
}
