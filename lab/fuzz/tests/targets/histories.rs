//! The reader of histories, and the oracle.

use std::collections::BTreeMap;

use idem_conformance::history::{Calls, Head, History, Invocation, Return, Seen, VERSION};
use idem_conformance::oracle::{Judgement, judge};
use idem_conformance::search::{Bounds, brute_force};
use idem_conformance::spec::{ABANDONED, Answer, Call, Op};
use idem_fuzz::Input;

/// Small, so that no input takes long.
const BOUNDS: Bounds = Bounds {
    configurations: 500,
    open: 12,
};

/// Returns the verdict: `None` for a history that cannot be judged.
fn judged(calls: &Calls) -> Option<(History, Judgement)> {
    let history = calls.history().ok()?;
    let judgement = judge(&history, BOUNDS);
    // The report says why, whatever the numbers are.
    let _ = judgement.to_string();
    Some((history, judgement))
}

/// Any text is judged or refused, and a history that is read is written as the same.
#[test]
fn text() {
    check!("histories::text", |bytes: &[u8]| {
        let Ok(Ok(calls)) = std::str::from_utf8(bytes).map(Calls::parse) else {
            return;
        };
        let _ = judged(&calls);
        let again = Calls::parse(&calls.to_ndjson().unwrap()).unwrap();
        assert_eq!(again.head, calls.head);
        assert_eq!(again.seen.len(), calls.seen.len());
    });
}

/// A small number, or one at an end of what there is.
fn number(input: &mut Input<'_>) -> i64 {
    match input.below(12) {
        0 => i64::MAX,
        1 => i64::MIN,
        2 => input.number(),
        _ => i64::from(input.byte() % 40),
    }
}

fn call(input: &mut Input<'_>) -> Call {
    let hash = |input: &mut Input<'_>| 1 + input.below(2) as u64;
    let op = match input.below(10) {
        0..3 => Op::Claim {
            fp: hash(input),
            lease: number(input),
            ret: number(input),
            takeover: input.below(2) == 0,
            retry: input.below(2) == 0,
        },
        3 => Op::Complete {
            seal: hash(input),
            ret: number(input),
        },
        4 => Op::Fail {
            seal: hash(input),
            ret: number(input),
        },
        5 => Op::Release,
        6 => Op::Renew {
            lease: number(input),
        },
        7 => Op::Save { cp: hash(input) },
        8 => Op::Load,
        _ => Op::Get,
    };
    let (attempt, token) = (hash(input), number(input));
    Call { op, attempt, token }
}

fn answer(input: &mut Input<'_>) -> Answer {
    let (kind, tok) = (input.below(12), number(input));
    let seal = 1 + input.below(2) as u64;
    match kind {
        0 | 1 => Answer::Acquired {
            tok,
            n: 1 + u32::from(input.byte() % 2),
            lease_end: number(input),
        },
        2 => Answer::InFlight {
            tok,
            lease_end: number(input),
        },
        3 => Answer::Completed { tok, seal },
        4 => Answer::Failed {
            tok,
            seal: ABANDONED,
        },
        5 => Answer::Conflict { tok, fp: seal },
        6 => Answer::Nothing,
        7 => Answer::Lost,
        8 => Answer::AlreadySealed,
        9 => Answer::NotDone,
        10 => Answer::Unknown,
        _ => Answer::Done,
    }
}

/// Histories with any instants are judged, and as the search by every order judges them.
#[test]
fn calls() {
    check!("histories::calls", |bytes: &[u8]| {
        let mut input = Input(bytes);
        let quantum = number(&mut input);
        let mut seen = Vec::new();
        while !input.is_empty() && seen.len() < 5 {
            let id = seen.len() as u64;
            let (c0, lasts) = (number(&mut input), number(&mut input));
            let invocation = Invocation {
                id,
                c0,
                k: "k".to_owned(),
                call: call(&mut input),
            };
            let answer = (input.below(8) > 0).then(|| Return {
                id,
                c1: c0.saturating_add(lasts),
                now: (input.below(4) == 0).then(|| number(&mut input)),
                answer: answer(&mut input),
            });
            seen.push(Seen { invocation, answer });
        }
        let head = Head {
            v: VERSION,
            cell: String::new(),
            seed: 0,
            quantum,
            asks_again: false,
            caches: false,
        };
        let Some((history, judgement)) = judged(&Calls { head, seen }) else {
            return;
        };
        if !judgement.undecided.is_empty() {
            return;
        }
        let by_brute_force: BTreeMap<_, _> = history
            .keys
            .iter()
            .map(|(key, operations)| (key, brute_force(operations, 0)))
            .collect();
        assert_eq!(
            by_brute_force.values().all(|accepted| *accepted),
            judgement.is_accepted()
        );
    });
}
