//! The oracle, which judges histories.
//!
//! A history contains what racing callers saw. The oracle knows nothing of the store: it reports
//! answers that cannot all come from a store that keeps the laws. An operation without an answer
//! may have happened or not: it may explain a missing winner, never a second one. So may a claim
//! that took longer than its lease: it may have acquired the key and lost it before its answer
//! came.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::history::{Answer, Call, Event, Op};

/// A broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Two attempts got the same token.
    TokenGivenTwice,
    /// A later acquisition did not get a greater token.
    TokenDidNotGrow,
    /// A key was acquired while it was held: no lease could have ended, and nothing was released,
    /// failed or expired.
    SecondWinner,
    /// An operation succeeded for a claim that was never acquired.
    DoneWithoutClaim,
    /// An operation of the old holder succeeded after another attempt had acquired the key.
    DoneAfterLoss,
    /// Two results were stored under one token.
    SealedTwice,
    /// A replay returned a result that was not stored under that token.
    ReplayOfNothing,
    /// A claim after an acknowledged result did not get it, although its retention could not have
    /// ended.
    ReplayMissed,
    /// A loser's answer named a holder that no caller was.
    LoserWithoutWinner,
    /// A holder got `ClaimLost`, although no other attempt had acquired the key.
    LostWithoutReason,
}

/// A broken rule, and the answers that break it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The hash of the key.
    pub key: String,
    /// The answers, in words.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of key {}: {}", self.rule, self.key, self.text)
    }
}

/// Returns all contradictions in the history. `tick` is how long the store's clock shows the same
/// instant: by the callers' clocks a lease or a retention may end that much too early.
#[must_use]
pub fn judge(history: &[Event], tick: Duration) -> Vec<Violation> {
    let tick_ns = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX);
    let mut by_key: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in history {
        by_key.entry(&event.call.key).or_default().push(event);
    }
    let mut violations = Vec::new();
    for (key, events) in by_key {
        let mut judge = OfKey {
            key,
            events,
            tick_ns,
            violations: &mut violations,
        };
        judge.acquisitions();
        judge.holders();
        judge.seals();
        judge.losers();
    }
    violations
}

/// Acquired claims with their tokens.
type Acquisitions<'a> = Vec<(i64, &'a Event)>;

struct OfKey<'a, 'v> {
    key: &'a str,
    events: Vec<&'a Event>,
    tick_ns: u64,
    violations: &'v mut Vec<Violation>,
}

impl<'a> OfKey<'a, '_> {
    fn broken(&mut self, rule: Rule, one: &Event, other: Option<&Event>) {
        let mut text = returned(one);
        if let Some(other) = other {
            text.push_str(" | ");
            text.push_str(&returned(other));
        }
        self.violations.push(Violation {
            rule,
            key: self.key.to_owned(),
            text,
        });
    }

    fn acquired(&self) -> Acquisitions<'a> {
        let acquired = |event: &&'a Event| match event.answer {
            Answer::Acquired(token) => Some((token, *event)),
            _ => None,
        };
        let mut all: Vec<_> = self.events.iter().filter_map(acquired).collect();
        all.sort_by_key(|(token, event)| (*token, event.call.invoked_ns));
        all
    }

    /// Returns the operations of this token's holder that took effect, or may have.
    fn done(&self, token: i64, op: Op) -> impl Iterator<Item = &'a Event> {
        let done = move |event: &&&'a Event| {
            let possible = event.answer == Answer::Done || event.answer.is_unknown();
            event.call.op == op && event.call.token == token && possible
        };
        self.events.iter().filter(done).copied()
    }

    /// Checks that tokens grow in the order of time, and that each belongs to one attempt.
    fn acquisitions(&mut self) {
        let all = self.acquired();
        for (at, (token, event)) in all.iter().enumerate() {
            for (later_token, later) in &all[at + 1..] {
                let other = event.call.attempt != later.call.attempt;
                if token == later_token && other {
                    self.broken(Rule::TokenGivenTwice, event, Some(later));
                }
                if later_token > token && later.returned_ns < event.call.invoked_ns {
                    self.broken(Rule::TokenDidNotGrow, later, Some(event));
                }
            }
        }
        let mut winners = all;
        winners.dedup_by_key(|(token, _)| *token);
        for pair in winners.windows(2) {
            let ((old, first), (_, second)) = (pair[0], pair[1]);
            if !self.may_be_over(old, second) {
                self.broken(Rule::SecondWinner, first, Some(second));
            }
        }
    }

    /// Returns whether the claim of this token may have been over when `next` acquired the key.
    fn may_be_over(&self, token: i64, next: &Event) -> bool {
        let before = |event: &&Event| event.call.invoked_ns <= next.returned_ns;
        let expired = |event: &&Event| self.ends(&event.call) <= next.returned_ns;
        let renewed = self
            .events
            .iter()
            .filter(|event| match (event.call.op, &event.answer) {
                (Op::Claim, Answer::Acquired(acquired)) => *acquired == token,
                (Op::Renew, Answer::Done) => event.call.token == token,
                _ => false,
            });
        let lease_ends = renewed
            .map(|event| self.ends(&event.call))
            .max()
            .unwrap_or(0);
        let completed = |event: &Event| event.answer == Answer::Done;
        if self.done(token, Op::Complete).any(completed) {
            return self.done(token, Op::Complete).any(|event| expired(&event));
        }
        let mut failures = self.done(token, Op::Fail).filter(before);
        lease_ends <= next.returned_ns
            || self.done(token, Op::Release).any(|event| before(&event))
            || failures.any(|event| next.call.retries_failures || expired(&event))
            || self.done(token, Op::Complete).any(|event| expired(&event))
    }

    /// Checks that holders succeed while they hold, and lose only to another attempt.
    fn holders(&mut self) {
        let winners = self.acquired();
        let of_holders = self.events.clone().into_iter();
        for event in of_holders.filter(|event| event.call.op != Op::Claim) {
            let call = &event.call;
            let theirs = |(token, winner): &&(i64, &Event)| {
                *token == call.token && winner.call.attempt == call.attempt
            };
            let superseded = |(token, winner): &&(i64, &Event)| {
                *token > call.token && winner.returned_ns < call.invoked_ns
            };
            if event.answer == Answer::Done {
                if !winners.iter().any(|winner| theirs(&winner)) {
                    self.broken(Rule::DoneWithoutClaim, event, None);
                }
                if let Some((_, winner)) = winners.iter().find(superseded) {
                    self.broken(Rule::DoneAfterLoss, winner, Some(event));
                }
            }
            if event.answer == Answer::Lost && !self.may_have_lost(event) {
                self.broken(Rule::LostWithoutReason, event, None);
            }
        }
    }

    /// Returns whether anything in the history may have taken the claim from its holder.
    fn may_have_lost(&self, event: &Event) -> bool {
        let call = &event.call;
        self.events.iter().any(|other| {
            let in_time = other.call.invoked_ns <= event.returned_ns;
            in_time
                && match (other.call.op, &other.answer) {
                    (Op::Claim, Answer::Acquired(token)) => *token > call.token,
                    (Op::Claim, Answer::InFlight(token)) => *token > call.token,
                    (Op::Claim, _) => self.may_have_won_unseen(other, call.token),
                    (Op::Renew, _) => false,
                    // Released, completed or expired: a renewal or release then finds the claim
                    // lost.
                    (_, Answer::Done | Answer::Unknown(_)) => other.call.token >= call.token,
                    _ => false,
                }
        })
    }

    /// Checks that each token has one result, and that replays return nothing else.
    fn seals(&mut self) {
        let sealing = |event: &&&Event| matches!(event.call.op, Op::Complete | Op::Fail);
        let seals: Vec<_> = self.events.iter().filter(sealing).copied().collect();
        let done = |event: &&&Event| event.answer == Answer::Done;
        let sealed: Vec<_> = seals.iter().filter(done).copied().collect();
        for (at, one) in sealed.iter().enumerate() {
            let differs = |other: &&&Event| {
                other.call.token == one.call.token
                    && (other.call.op != one.call.op || other.call.sealed != one.call.sealed)
            };
            if let Some(other) = sealed[at + 1..].iter().find(differs) {
                self.broken(Rule::SealedTwice, one, Some(other));
            }
        }
        for event in self.events.clone() {
            if let Some((op, token, text)) = replayed(&event.answer) {
                let source = |seal: &&&Event| {
                    seal.call.token == token
                        && seal.call.op == op
                        && seal.call.sealed == text
                        && (seal.answer == Answer::Done || seal.answer.is_unknown())
                        && seal.call.invoked_ns <= event.returned_ns
                };
                if !seals.iter().any(|seal| source(&seal)) {
                    self.broken(Rule::ReplayOfNothing, event, None);
                }
            }
            for seal in &sealed {
                let same = |other: &&&Event| {
                    (other.call.token, other.call.op) == (seal.call.token, seal.call.op)
                };
                let kept_until = seals
                    .iter()
                    .filter(same)
                    .map(|seal| self.ends(&seal.call))
                    .min();
                if misses(event, seal, kept_until.unwrap_or(0)) {
                    self.broken(Rule::ReplayMissed, seal, Some(event));
                }
            }
        }
    }

    /// Checks that each holder named to a loser exists, or may exist.
    fn losers(&mut self) {
        let winners = self.acquired();
        for event in self.events.clone() {
            let Answer::InFlight(token) = event.answer else {
                continue;
            };
            let known = winners.iter().any(|(won, _)| *won == token);
            let unknown = self.events.iter().any(|other| {
                let asked = other.call.invoked_ns <= event.returned_ns;
                asked && self.may_have_won_unseen(other, token)
            });
            if !known && !unknown {
                self.broken(Rule::LoserWithoutWinner, event, None);
            }
        }
    }

    /// Returns whether this claim may have acquired the key, under this token or a later one, without
    /// an answer that says so. Its answer is unknown, or it took longer than its lease and names a
    /// later acquisition.
    fn may_have_won_unseen(&self, event: &Event, token: i64) -> bool {
        if event.call.op != Op::Claim {
            return false;
        }
        let later = match &event.answer {
            Answer::Unknown(_) => return true,
            Answer::Acquired(returned) | Answer::InFlight(returned) => *returned > token,
            Answer::Completed(returned, _) | Answer::Failed(returned, _) => *returned > token,
            _ => false,
        };
        later && self.ends(&event.call) <= event.returned_ns
    }

    /// Returns the earliest instant at which the requested lease or retention ends.
    fn ends(&self, call: &Call) -> u64 {
        let lasts_ns = call.lasts_ns.saturating_sub(self.tick_ns);
        call.invoked_ns.saturating_add(lasts_ns)
    }
}

fn replayed(answer: &Answer) -> Option<(Op, i64, &str)> {
    match answer {
        Answer::Completed(token, text) => Some((Op::Complete, *token, text)),
        Answer::Failed(token, text) => Some((Op::Fail, *token, text)),
        _ => None,
    }
}

/// Returns whether this claim began after the result was acknowledged, ended before the retention
/// could, and got another answer.
fn misses(event: &Event, seal: &Event, kept_until: u64) -> bool {
    let between = seal.returned_ns < event.call.invoked_ns && event.returned_ns < kept_until;
    if event.call.op != Op::Claim || !between {
        return false;
    }
    if seal.call.op == Op::Fail && event.call.retries_failures {
        return false;
    }
    match &event.answer {
        Answer::Unknown(_) | Answer::NotDone(_) | Answer::Conflict(_) => false,
        // A claim may have retried the failure, also as a later holder.
        answer if seal.call.op == Op::Fail => match answer {
            Answer::Acquired(token) | Answer::InFlight(token) => *token <= seal.call.token,
            Answer::Completed(token, _) | Answer::Failed(token, _) => *token < seal.call.token,
            _ => true,
        },
        answer => replayed(answer).is_none_or(|(_, token, _)| token != seal.call.token),
    }
}

fn returned(event: &Event) -> String {
    let Call {
        process,
        op,
        attempt,
        token,
        invoked_ns,
        ..
    } = &event.call;
    format!(
        "process {process} {op:?} {attempt:?} token {token} at {invoked_ns} to {}: {:?}",
        event.returned_ns, event.answer
    )
}
