//! Hand-made histories, and the oracle's verdict.

use std::time::Duration;

use idem_conformance::history::{Answer, Call, Event, Op};
use idem_conformance::idem_core::AttemptId;
use idem_conformance::oracle::{Rule, judge};

/// A lease or retention that lasts 100 ticks.
pub(crate) const LASTS: u64 = 100;

pub(crate) fn call(op: Op, attempt: u8, token: i64, invoked_ns: u64) -> Call {
    Call {
        process: u32::from(attempt),
        op,
        key: "k".to_owned(),
        attempt: AttemptId::from_bytes([attempt; 16]),
        token,
        fingerprint: "f".to_owned(),
        retries_failures: false,
        lasts_ns: LASTS,
        sealed: String::new(),
        invoked_ns,
    }
}

/// A claim from `span.0` to `span.1`.
pub(crate) fn claim(attempt: u8, span: (u64, u64), answer: Answer) -> Event {
    Event {
        call: call(Op::Claim, attempt, 0, span.0),
        answer,
        returned_ns: span.1,
    }
}

/// An operation of the holder of this token.
pub(crate) fn step(op: Op, attempt: u8, token: i64, span: (u64, u64), answer: Answer) -> Event {
    Event {
        call: call(op, attempt, token, span.0),
        answer,
        returned_ns: span.1,
    }
}

pub(crate) fn sealed(
    op: Op,
    attempt: u8,
    token: i64,
    span: (u64, u64),
    text: &str,
    answer: Answer,
) -> Event {
    let mut event = step(op, attempt, token, span, answer);
    event.call = event.call.with_sealed(text);
    event
}

pub(crate) fn retrying(mut event: Event) -> Event {
    event.call.retries_failures = true;
    event
}

pub(crate) fn unknown() -> Answer {
    Answer::Unknown("no answer".to_owned())
}

pub(crate) fn completed(token: i64, text: &str) -> Answer {
    Answer::Completed(token, text.to_owned())
}

pub(crate) fn rules(history: &[Event]) -> Vec<Rule> {
    let mut rules: Vec<_> = judge(history, Duration::ZERO)
        .into_iter()
        .map(|violation| violation.rule)
        .collect();
    rules.dedup();
    rules
}

#[track_caller]
pub(crate) fn good(history: &[Event]) {
    assert_eq!(judge(history, Duration::ZERO), [], "a right history");
}

#[track_caller]
pub(crate) fn bad(rule: Rule, history: &[Event]) {
    assert!(
        rules(history).contains(&rule),
        "{:?}",
        judge(history, Duration::ZERO)
    );
}
