//! Histories made by hand, and the oracle's verdict.

use idem_conformance::history::{Calls, Head, Invocation, Return, Seen, VERSION};
use idem_conformance::oracle::judge;
use idem_conformance::search::Bounds;
use idem_conformance::spec::{Answer, Call, Op};

/// The store's clock is this far ahead of the machine's.
pub(crate) const AHEAD: i64 = 1_000_000_000;
pub(crate) const MILLI: i64 = 1_000;
pub(crate) const LONG: i64 = 3_600_000 * MILLI;
pub(crate) const FP: u64 = 1;

/// Calls on one key.
#[derive(Default)]
pub(crate) struct Script(pub(crate) Vec<Seen>);

impl Script {
    /// Adds a call between these instants of the machine's clock. `now` is the store's clock, for
    /// answers that carry it.
    pub(crate) fn call(
        mut self,
        (c0, c1): (i64, i64),
        (attempt, token): (u64, i64),
        op: Op,
        now: Option<i64>,
        answer: Answer,
    ) -> Self {
        let id = self.0.len() as u64 + 1;
        let call = Call { op, attempt, token };
        let invocation = Invocation {
            id,
            c0,
            k: "k".to_owned(),
            call,
        };
        let answer = Return {
            id,
            c1,
            now: now.map(|now| now + AHEAD),
            answer,
        };
        self.0.push(Seen {
            invocation,
            answer: Some(answer),
        });
        self
    }

    /// Adds a claim that is acquired at this instant.
    pub(crate) fn acquire(
        self,
        times: (i64, i64),
        attempt: u64,
        at: i64,
        lease: i64,
        n: u32,
    ) -> Self {
        let tok = at + AHEAD;
        let lease_end = at + lease + AHEAD;
        let acquired = Answer::Acquired { tok, n, lease_end };
        self.call(times, (attempt, 0), claim(FP, lease), Some(at), acquired)
    }

    pub(crate) fn is_accepted(&self) -> bool {
        let calls = Calls {
            head: Head {
                v: VERSION,
                cell: "made by hand".to_owned(),
                seed: 0,
                quantum: 1,
                asks_again: false,
                caches: false,
            },
            seen: self.0.clone(),
        };
        let judgement = judge(&calls.history().unwrap(), Bounds::default());
        assert!(judgement.undecided.is_empty(), "{judgement}");
        judgement.is_accepted()
    }
}

pub(crate) fn claim(fp: u64, lease: i64) -> Op {
    Op::Claim {
        fp,
        lease,
        ret: LONG,
        takeover: true,
        retry: false,
    }
}
