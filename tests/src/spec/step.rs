//! [`step`]: every successor of a state.

use super::answer::Pattern;
use super::{ABANDONED, Answer, Body, Call, Fly, KeyState, Op, Sealed, Span, Tomb};

/// A millisecond: stores keep leases and retentions in whole ones, rounded up.
const MILLI: i64 = 1000;

/// Returns every successor of the state, each with the answer that belongs to it. A call without a
/// successor cannot take effect within the window.
#[must_use]
pub fn step(state: &KeyState, call: &Call, window: Span) -> Vec<(KeyState, Pattern)> {
    let mut step = Step {
        state,
        call,
        out: Vec::new(),
    };
    if is_early(state, call, window) {
        match call.op {
            Op::Get => step.get(window),
            _ => step.claim(window),
        }
        return step.out;
    }
    let Some(now) = window.from(state.clock) else {
        return Vec::new();
    };
    match &call.op {
        Op::Claim { .. } => step.claim(now),
        Op::Get => step.get(now),
        Op::Sweep => step.sweep(now),
        // What is lost depends on the past, which the search knows.
        Op::Loss | Op::TakeBack => {}
        Op::Clock { .. } => step.clock(now),
        _ => step.holder(now),
    }
    step.out
}

/// Returns whether a call may have read the store's clock before the write that left this state. A
/// read then sees the record as it is, and a claim, which has waited for the write, that of another
/// attempt.
fn is_early(state: &KeyState, call: &Call, window: Span) -> bool {
    match (&call.op, &state.body) {
        (Op::Claim { .. }, Body::Fly(fly)) => {
            fly.attempt != call.attempt && window.from(state.clock).is_none()
        }
        (Op::Claim { .. }, _) => true,
        (Op::Get, _) => window.from(state.clock).is_none(),
        _ => false,
    }
}

/// The part of a claim that its successors need.
struct Wanted {
    fingerprint: u64,
    lease: i64,
    kept: i64,
    takeover: bool,
}

struct Step<'a> {
    state: &'a KeyState,
    call: &'a Call,
    out: Vec<(KeyState, Pattern)>,
}

impl Step<'_> {
    fn push(&mut self, state: KeyState, pattern: Pattern) {
        self.out.push((state, pattern));
    }

    /// The record stays as it is.
    ///
    /// The state's clock stays, too. A write decides at one instant and is visible when it commits,
    /// so a read between the two still finds the record before it, at a later instant. Only writes
    /// to one key wait for each other.
    fn same(&mut self, pattern: Pattern) {
        self.push(self.state.clone(), pattern);
    }

    fn claim(&mut self, now: Span) {
        let Op::Claim {
            fp,
            lease,
            ret,
            takeover,
            retry,
        } = self.call.op
        else {
            return;
        };
        let wanted = Wanted {
            fingerprint: fp,
            lease,
            kept: ret,
            takeover,
        };
        match &self.state.body {
            Body::Absent | Body::Tomb(_) => self.acquire(&wanted, now, 1, 0),
            Body::Fly(fly) => {
                let (fly, ends) = (fly.clone(), fly.expires());
                if let Some(over) = now.from(ends.lo) {
                    self.acquire(&wanted, over, 1, 0);
                }
                if let Some(live) = now.before(ends.hi) {
                    self.claim_of_fly(&wanted, &fly, live);
                }
            }
            Body::Sealed(sealed) => {
                let sealed = sealed.clone();
                if let Some(over) = now.from(sealed.expires.lo) {
                    self.acquire(&wanted, over, 1, 0);
                }
                if let Some(live) = now.before(sealed.expires.hi) {
                    if sealed.fingerprint != fp {
                        self.same(conflict(sealed.token, sealed.fingerprint));
                    } else if sealed.is_failure && retry {
                        self.acquire(&wanted, live, sealed.acquisitions + 1, 0);
                    } else {
                        self.same(of_sealed(&sealed));
                    }
                }
            }
        }
    }

    fn claim_of_fly(&mut self, wanted: &Wanted, fly: &Fly, now: Span) {
        if fly.fingerprint != wanted.fingerprint {
            self.same(conflict(fly.token, fly.fingerprint));
            return;
        }
        if fly.attempt == self.call.attempt {
            // The record is written from the claim that came last.
            let again = Fly {
                takeover: wanted.takeover,
                lease: ends(now, wanted.lease),
                kept: wanted.kept,
                ..fly.clone()
            };
            let pattern = acquired(&again);
            let state = self.state.with(now, Body::Fly(again));
            self.push(state, pattern);
            return;
        }
        if let Some(stale) = now.from(fly.lease.lo) {
            if fly.takeover && wanted.takeover {
                self.acquire(wanted, stale, fly.acquisitions + 1, fly.checkpoint);
            } else {
                let failed = abandoned(fly);
                let pattern = of_sealed(&failed);
                let state = self.state.with(stale, Body::Sealed(failed));
                self.push(state, pattern);
            }
        }
        if now.before(fly.lease.hi).is_some() {
            self.same(of_fly(fly));
        }
    }

    /// The key is acquired under a token that is greater than every one before.
    fn acquire(&mut self, wanted: &Wanted, now: Span, acquisitions: u32, checkpoint: u64) {
        let floor = self.state.floor.saturating_add(1);
        let fly = Fly {
            token: Span {
                lo: floor,
                hi: i64::MAX,
            },
            attempt: self.call.attempt,
            fingerprint: wanted.fingerprint,
            takeover: wanted.takeover,
            lease: ends(now, wanted.lease),
            kept: wanted.kept,
            acquisitions,
            checkpoint,
        };
        let pattern = acquired(&fly);
        let mut state = self.state.with(now, Body::Fly(fly));
        state.floor = floor;
        state.clock = state.clock.max(self.state.clock);
        self.push(state, pattern);
    }

    fn get(&mut self, now: Span) {
        let (pattern, expires) = match &self.state.body {
            Body::Absent | Body::Tomb(_) => {
                self.same(Pattern::plain(Answer::Nothing));
                return;
            }
            Body::Fly(fly) => (of_fly(fly), fly.expires()),
            Body::Sealed(sealed) => (of_sealed(sealed), sealed.expires),
        };
        if now.before(expires.hi).is_some() {
            self.same(pattern);
        }
        if now.from(expires.lo).is_some() {
            self.same(Pattern::plain(Answer::Nothing));
        }
    }

    /// A sweep of the store, as far as it concerns this key.
    fn sweep(&mut self, now: Span) {
        if let Body::Fly(fly) = &self.state.body
            && !fly.takeover
            && let Some(stale) = now.from(fly.lease.lo)
        {
            let failed = Body::Sealed(abandoned(fly));
            let state = self.state.with(stale, failed);
            self.push(state, Pattern::plain(Answer::Done));
        }
    }

    /// The store's clock is set. What was not live before may have been deleted before, which only
    /// shows now that it might live again.
    fn clock(&mut self, now: Span) {
        let expires = match &self.state.body {
            Body::Absent => None,
            Body::Tomb(_) => Some(now),
            Body::Fly(fly) => Some(fly.expires()),
            Body::Sealed(sealed) => Some(sealed.expires),
        };
        let set = |body| KeyState {
            floor: self.state.floor,
            clock: i64::MIN,
            body,
        };
        let kept = set(self.state.body.clone());
        let deleted = set(Body::Absent);
        self.push(kept, Pattern::plain(Answer::Done));
        if expires.is_some_and(|expires| now.from(expires.lo).is_some()) {
            self.push(deleted, Pattern::plain(Answer::Done));
        }
    }

    /// An operation of a holder.
    fn holder(&mut self, now: Span) {
        let lost = || Pattern::plain(Answer::Lost);
        let done = || Pattern::plain(Answer::Done);
        match &self.state.body {
            Body::Fly(fly) if self.owns(fly.token, Some(fly.attempt)) => {
                let fly = Fly {
                    token: Span::at(self.call.token),
                    ..fly.clone()
                };
                let expires = fly.expires();
                if let Some(live) = now.before(expires.hi) {
                    let answer = match self.call.op {
                        Op::Load => Answer::Checkpoint { cp: fly.checkpoint },
                        _ => Answer::Done,
                    };
                    let body = self.of_own_fly(fly, live);
                    let mut state = self.state.with(live, body);
                    if self.call.op == Op::Load {
                        // As for other reads: a write that was decided before may follow.
                        state.clock = self.state.clock;
                    }
                    state.floor = state.floor.max(self.call.token);
                    self.push(state, Pattern::plain(answer));
                }
                if now.from(expires.lo).is_some() {
                    self.same(lost());
                }
            }
            Body::Sealed(sealed) if self.owns(sealed.token, sealed.attempt) => {
                let (sealed, is_same) = (sealed.clone(), self.seals_as(sealed));
                if now.before(sealed.expires.hi).is_some() {
                    let answer = match is_same {
                        Some(true) => Answer::Done,
                        Some(false) => Answer::AlreadySealed,
                        None => Answer::Lost,
                    };
                    self.same(Pattern::plain(answer));
                }
                if now.from(sealed.expires.lo).is_some() {
                    self.same(lost());
                }
            }
            Body::Tomb(tomb) if self.owns(tomb.token, Some(tomb.attempt)) => {
                if self.call.op == Op::Release {
                    self.same(done());
                }
                // A purge may have deleted the tomb.
                self.same(lost());
            }
            _ => self.same(lost()),
        }
    }

    /// Returns the record after an operation of its holder.
    fn of_own_fly(&self, fly: Fly, now: Span) -> Body {
        let sealed = |is_failure, seal, ret| {
            Body::Sealed(Sealed {
                is_failure,
                token: fly.token,
                attempt: Some(fly.attempt),
                fingerprint: fly.fingerprint,
                seal,
                expires: ends(now, ret),
                acquisitions: fly.acquisitions,
            })
        };
        match self.call.op {
            Op::Complete { seal, ret } => sealed(false, seal, ret),
            Op::Fail { seal, ret } => sealed(true, seal, ret),
            Op::Renew { lease } => Body::Fly(Fly {
                lease: fly.lease.later_of(ends(now, lease)),
                ..fly
            }),
            Op::Save { cp } => Body::Fly(Fly {
                checkpoint: cp,
                ..fly
            }),
            Op::Release => Body::Tomb(Tomb {
                token: fly.token,
                attempt: fly.attempt,
            }),
            Op::Claim { .. }
            | Op::Load
            | Op::Get
            | Op::Sweep
            | Op::Loss
            | Op::TakeBack
            | Op::Clock { .. } => Body::Fly(fly),
        }
    }

    fn owns(&self, token: Span, attempt: Option<u64>) -> bool {
        token.contains(self.call.token) && attempt == Some(self.call.attempt)
    }

    /// Returns whether the call stores what is stored; `None` if it stores nothing.
    fn seals_as(&self, sealed: &Sealed) -> Option<bool> {
        match self.call.op {
            Op::Complete { seal, .. } => Some(!sealed.is_failure && sealed.seal == seal),
            Op::Fail { seal, .. } => Some(sealed.is_failure && sealed.seal == seal),
            _ => None,
        }
    }
}

impl Fly {
    fn expires(&self) -> Span {
        self.lease.after(self.kept)
    }
}

/// Returns when a duration from now ends: stores round it up to milliseconds.
fn ends(now: Span, micros: i64) -> Span {
    Span {
        lo: now.lo.saturating_add(micros),
        hi: now.hi.saturating_add(micros).saturating_add(MILLI),
    }
}

fn abandoned(fly: &Fly) -> Sealed {
    Sealed {
        is_failure: true,
        token: fly.token,
        attempt: None,
        fingerprint: fly.fingerprint,
        seal: ABANDONED,
        expires: fly.expires(),
        acquisitions: fly.acquisitions,
    }
}

fn acquired(fly: &Fly) -> Pattern {
    Pattern {
        answer: Answer::Acquired {
            tok: 0,
            n: fly.acquisitions,
            lease_end: 0,
        },
        token: fly.token,
        lease: fly.lease,
    }
}

fn of_fly(fly: &Fly) -> Pattern {
    Pattern {
        answer: Answer::InFlight {
            tok: 0,
            lease_end: 0,
        },
        token: fly.token,
        lease: fly.lease,
    }
}

fn of_sealed(sealed: &Sealed) -> Pattern {
    let (tok, seal) = (0, sealed.seal);
    Pattern {
        answer: match sealed.is_failure {
            true => Answer::Failed { tok, seal },
            false => Answer::Completed { tok, seal },
        },
        token: sealed.token,
        lease: Span::at(0),
    }
}

fn conflict(token: Span, fp: u64) -> Pattern {
    Pattern {
        answer: Answer::Conflict { tok: 0, fp },
        token,
        lease: Span::at(0),
    }
}
