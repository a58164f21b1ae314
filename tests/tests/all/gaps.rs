//! Wrong answers that no rule about pairs of answers sees, and the oracle refuses. Each has a twin
//! with the right answer, which the oracle accepts.

use super::support::{AHEAD, FP, LONG, MILLI, Script, claim};
use idem_conformance::spec::{ABANDONED, Answer, Op};

const LEASE: i64 = 20 * MILLI;

/// Checks that the oracle tells the two apart.
#[track_caller]
fn gap(wrong: &Script, right: &Script) {
    assert!(!wrong.is_accepted(), "it accepts the wrong one");
    assert!(right.is_accepted(), "it refuses the right one");
}

#[test]
fn a_lease_is_judged_by_the_stores_clock() {
    let slow = |second: i64| {
        // The first answer took longer than the lease.
        Script::default()
            .acquire((0, 100 * MILLI), 1, 95 * MILLI, LEASE, 1)
            .acquire((second, second + MILLI), 2, second + 500, LEASE, 2)
    };
    gap(&slow(110 * MILLI), &slow(116 * MILLI));
}

#[test]
fn a_read_is_an_answer_too() {
    let read = |seal: u64| {
        let at = 500;
        Script::default()
            .acquire((0, MILLI), 1, at, LEASE, 1)
            .call(
                (2 * MILLI, 3 * MILLI),
                (1, at + AHEAD),
                Op::Complete { seal: 7, ret: LONG },
                None,
                Answer::Done,
            )
            .call(
                (4 * MILLI, 5 * MILLI),
                (0, 0),
                Op::Get,
                Some(4_500),
                Answer::Completed {
                    tok: at + AHEAD,
                    seal,
                },
            )
    };
    gap(&read(8), &read(7));
}

#[test]
fn a_sweep_fails_no_live_claim() {
    let swept = |sweep: i64| {
        let at = 500;
        let claimed = Script::default().call(
            (0, MILLI),
            (1, 0),
            Op::Claim {
                fp: FP,
                lease: LEASE,
                ret: LONG,
                takeover: false,
                retry: false,
            },
            Some(at),
            Answer::Acquired {
                tok: at + AHEAD,
                n: 1,
                lease_end: at + LEASE + AHEAD,
            },
        );
        let mut script = claimed.call(
            (sweep, sweep + MILLI),
            (0, 0),
            Op::Sweep,
            None,
            Answer::Done,
        );
        // A sweep concerns the whole store.
        script.0[1].invocation.k.clear();
        script.call(
            (sweep + 2 * MILLI, sweep + 3 * MILLI),
            (0, 0),
            Op::Get,
            Some(sweep + 2_500),
            Answer::Failed {
                tok: at + AHEAD,
                seal: ABANDONED,
            },
        )
    };
    gap(&swept(5 * MILLI), &swept(25 * MILLI));
}

#[test]
fn a_takeover_finds_the_checkpoint_that_was_saved() {
    let loaded = |cp: u64| {
        let (first, second) = (500, 30_500);
        Script::default()
            .acquire((0, MILLI), 1, first, LEASE, 1)
            .call(
                (2 * MILLI, 3 * MILLI),
                (1, first + AHEAD),
                Op::Save { cp: 5 },
                None,
                Answer::Done,
            )
            .acquire((30 * MILLI, 31 * MILLI), 2, second, LEASE, 2)
            .call(
                (32 * MILLI, 33 * MILLI),
                (2, second + AHEAD),
                Op::Load,
                None,
                Answer::Checkpoint { cp },
            )
    };
    gap(&loaded(6), &loaded(5));
    assert!(!loaded(0).is_accepted(), "it is not lost either");
}

#[test]
fn a_conflict_names_the_stored_fingerprint() {
    let conflict = |fp: u64| {
        let at = 500;
        Script::default().acquire((0, MILLI), 1, at, LEASE, 1).call(
            (2 * MILLI, 3 * MILLI),
            (2, 0),
            claim(2, LEASE),
            Some(2_500),
            Answer::Conflict {
                tok: at + AHEAD,
                fp,
            },
        )
    };
    gap(&conflict(3), &conflict(FP));
}

#[test]
fn the_rightful_holder_is_not_told_that_it_is_sealed() {
    let first = |answer: Answer| {
        let at = 500;
        Script::default().acquire((0, MILLI), 1, at, LEASE, 1).call(
            (2 * MILLI, 3 * MILLI),
            (1, at + AHEAD),
            Op::Complete { seal: 7, ret: LONG },
            None,
            answer,
        )
    };
    gap(&first(Answer::AlreadySealed), &first(Answer::Done));
}

#[test]
fn a_loser_is_told_of_the_present_holder() {
    let told = |tok: i64, lease_end: i64| {
        Script::default()
            .acquire((0, MILLI), 1, 500, LEASE, 1)
            .acquire((30 * MILLI, 31 * MILLI), 2, 30_500, LEASE, 2)
            .call(
                (32 * MILLI, 33 * MILLI),
                (3, 0),
                claim(FP, LEASE),
                Some(32_500),
                Answer::InFlight {
                    tok: tok + AHEAD,
                    lease_end: lease_end + AHEAD,
                },
            )
    };
    gap(&told(500, 500 + LEASE), &told(30_500, 30_500 + LEASE));
}

#[test]
fn a_call_without_an_answer_explains_only_what_it_could_have_done() {
    let told = |tok: i64, lease_end: i64| {
        Script::default()
            .call((0, MILLI), (1, 0), claim(FP, LEASE), None, Answer::Unknown)
            .acquire((2 * MILLI, 3 * MILLI), 2, 2_500, LEASE, 1)
            .call(
                (6 * MILLI, 7 * MILLI),
                (3, 0),
                claim(FP, LEASE),
                Some(6_500),
                Answer::InFlight {
                    tok: tok + AHEAD,
                    lease_end: lease_end + AHEAD,
                },
            )
    };
    // The call without an answer may take effect at any time, but the second attempt holds the key.
    gap(&told(6_000, 6_000 + LEASE), &told(2_500, 2_500 + LEASE));
}

#[test]
fn a_read_finds_nothing_until_a_write_that_was_decided_before_it_commits() {
    let read = |at: i64| {
        // The claim was decided at the first millisecond, and committed in the last one.
        let claim = Script::default().acquire((0, 10 * MILLI), 1, MILLI, LEASE, 1);
        claim.call((at, at + 100), (0, 0), Op::Get, None, Answer::Nothing)
    };
    gap(&read(11 * MILLI), &read(6 * MILLI));
}
