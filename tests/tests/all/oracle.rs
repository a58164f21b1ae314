//! The oracle accepts the answers of a correct store, and refuses those of a wrong one.

use super::support::{AHEAD, FP, LONG, MILLI, Script, claim};
use idem_conformance::spec::{Answer, Op};

use Answer::{AlreadySealed, Done, Lost, Unknown};

/// Leases of 100 ms: what the scripts call an instant is a millisecond.
const LEASE: i64 = 100 * MILLI;

/// Calls of one key, by millisecond. A claim under `at` has that instant as its token.
#[derive(Default)]
struct Story(Script);

fn token(at: i64) -> i64 {
    at * MILLI + AHEAD
}

fn span((from, to): (i64, i64)) -> (i64, i64) {
    (from * MILLI, to * MILLI)
}

fn completed(at: i64, seal: u64) -> Answer {
    Answer::Completed {
        tok: token(at),
        seal,
    }
}

impl Story {
    /// A claim that is acquired at this instant, for the n-th time since the key was fresh.
    fn acquire(self, times: (i64, i64), attempt: u64, at: i64, n: u32) -> Self {
        Self(self.0.acquire(span(times), attempt, at * MILLI, LEASE, n))
    }

    /// A claim with this answer.
    fn claim(self, times: (i64, i64), attempt: u64, answer: Answer) -> Self {
        let op = claim(FP, LEASE);
        Self(self.0.call(span(times), (attempt, 0), op, None, answer))
    }

    /// A claim that finds the holder of this instant.
    fn in_flight(self, times: (i64, i64), attempt: u64, at: i64) -> Self {
        let (tok, lease_end) = (token(at), token(at) + LEASE);
        self.claim(times, attempt, Answer::InFlight { tok, lease_end })
    }

    /// A claim without an answer.
    fn unknown(self, begins: i64, attempt: u64) -> Self {
        self.claim((begins, begins + 1), attempt, Unknown)
    }

    /// A call of the holder since this instant.
    fn hold(self, times: (i64, i64), (attempt, at): (u64, i64), op: Op, answer: Answer) -> Self {
        let holder = (attempt, token(at));
        Self(self.0.call(span(times), holder, op, None, answer))
    }

    fn complete(self, times: (i64, i64), holder: (u64, i64), seal: u64, answer: Answer) -> Self {
        self.hold(times, holder, Op::Complete { seal, ret: LEASE }, answer)
    }
}

#[track_caller]
fn right(story: &Story) {
    assert!(story.0.is_accepted(), "a right history");
}

#[track_caller]
fn wrong(story: &Story) {
    assert!(!story.0.is_accepted(), "a wrong history");
}

/// A claim at 5 that holds the key.
fn held() -> Story {
    Story::default().acquire((0, 10), 1, 5, 1)
}

#[test]
fn one_winner_and_its_replay_are_right() {
    let story = held().in_flight((6, 9), 2, 5);
    let story = story.complete((11, 20), (1, 5), 7, Done);
    let story = story
        .in_flight((15, 25), 3, 5)
        .claim((21, 30), 4, completed(5, 7));
    right(&story.acquire((200, 210), 5, 205, 1));
}

#[test]
fn keys_are_judged_apart() {
    let of_two = |key: &str| {
        let mut story = held().acquire((0, 10), 2, 7, 1);
        key.clone_into(&mut story.0.0[1].invocation.k);
        story
    };
    right(&of_two("other"));
    wrong(&of_two("k"));
}

#[test]
fn one_token_belongs_to_one_attempt() {
    wrong(&held().acquire((0, 10), 2, 5, 1));
    let again = |attempt| {
        let acquired = Answer::Acquired {
            tok: token(5),
            n: 1,
            lease_end: token(25) + LEASE,
        };
        held().claim((20, 30), attempt, acquired)
    };
    right(&again(1));
    wrong(&again(2));
}

#[test]
fn tokens_grow() {
    let second = |tok| {
        let acquired = Answer::Acquired {
            tok,
            n: 2,
            lease_end: token(205) + LEASE,
        };
        held().claim((200, 210), 2, acquired)
    };
    wrong(&second(token(4)));
    right(&second(token(205)));
}

#[test]
fn claims_at_the_same_time_may_come_in_any_order() {
    let story = Story::default()
        .acquire((0, 20), 1, 15, 1)
        .acquire((0, 12), 2, 4, 1);
    right(&story.hold((5, 14), (2, 4), Op::Release, Done));
}

#[test]
fn a_takeover_comes_after_the_lease() {
    wrong(&held().acquire((20, 30), 2, 25, 2));
    right(&held().acquire((90, 110), 2, 107, 2));
}

#[test]
fn a_renewal_protects_if_it_was_acknowledged() {
    let renewed = |answer| {
        let renewal = held().hold((50, 60), (1, 5), Op::Renew { lease: LEASE }, answer);
        renewal.acquire((110, 120), 2, 115, 2)
    };
    wrong(&renewed(Done));
    right(&renewed(Unknown));
}

#[test]
fn a_release_frees_the_key_also_without_an_answer() {
    for answer in [Done, Unknown] {
        let story = held().hold((11, 15), (1, 5), Op::Release, answer);
        right(&story.acquire((12, 20), 2, 16, 1));
    }
    let story = held().acquire((11, 15), 2, 13, 1);
    wrong(&story.hold((20, 25), (1, 5), Op::Release, Lost));
}

#[test]
fn only_a_claim_that_says_so_retries_a_failure() {
    let again = |retry, answer| {
        let failure = Op::Fail { seal: 3, ret: LONG };
        let story = held().hold((11, 15), (1, 5), failure, Done);
        let op = Op::Claim {
            fp: FP,
            lease: LEASE,
            ret: LONG,
            takeover: true,
            retry,
        };
        Story(story.0.call(span((20, 30)), (2, 0), op, None, answer))
    };
    let acquired = Answer::Acquired {
        tok: token(25),
        n: 2,
        lease_end: token(25) + LEASE,
    };
    let failed = Answer::Failed {
        tok: token(5),
        seal: 3,
    };
    right(&again(true, acquired.clone()));
    wrong(&again(false, acquired));
    right(&again(false, failed.clone()));
    wrong(&again(true, failed));
}

#[test]
fn a_claim_after_a_completion_gets_it_until_the_retention_ends() {
    let after = |times, answer| {
        let done = held().complete((11, 20), (1, 5), 7, Done);
        done.claim(times, 2, answer)
    };
    let in_flight = Answer::InFlight {
        tok: token(5),
        lease_end: token(5) + LEASE,
    };
    let acquired = |at| Answer::Acquired {
        tok: token(at),
        n: 1,
        lease_end: token(at) + LEASE,
    };
    right(&after((30, 40), completed(5, 7)));
    right(&after((15, 40), in_flight.clone()));
    wrong(&after((30, 40), in_flight));
    wrong(&after((30, 40), acquired(35)));
    right(&after((30, 118), acquired(116)));
    right(&after((30, 40), Unknown));
}

#[test]
fn a_claim_without_answer_explains_a_missing_winner_never_a_second() {
    right(&Story::default().unknown(0, 1).in_flight((5, 10), 2, 2));
    wrong(&held().unknown(0, 3).acquire((20, 30), 2, 25, 1));
}

#[test]
fn a_loser_of_nobody_is_wrong() {
    wrong(&Story::default().in_flight((0, 10), 1, 2));
    let asked_later = Story::default().in_flight((0, 10), 1, 2);
    wrong(&asked_later.unknown(20, 2));
}

#[test]
fn success_of_somebody_who_does_not_hold_is_wrong() {
    let renew = || Op::Renew { lease: LEASE };
    wrong(&Story::default().hold((0, 10), (1, 5), renew(), Done));
    wrong(&held().hold((20, 30), (2, 5), renew(), Done));
    right(&held().hold((20, 30), (1, 5), renew(), Done));
}

#[test]
fn success_of_an_old_holder_is_wrong() {
    let late = |op, answer| {
        let taken = held().acquire((106, 115), 2, 110, 2);
        taken.hold((120, 130), (1, 5), op, answer)
    };
    for op in [
        Op::Complete { seal: 7, ret: LONG },
        Op::Fail { seal: 7, ret: LONG },
        Op::Release,
        Op::Renew { lease: LEASE },
    ] {
        wrong(&late(op.clone(), Done));
        right(&late(op, Lost));
    }
}

#[test]
fn a_late_holder_succeeds_while_nobody_has_won() {
    let late = |answer, seal| {
        let story = held().complete((150, 160), (1, 5), 7, answer);
        story.claim((161, 170), 2, completed(5, seal))
    };
    right(&late(Done, 7));
    wrong(&late(Done, 8));
    wrong(&late(Lost, 7));
}

#[test]
fn losing_to_somebody_is_right_and_to_nobody_is_wrong() {
    let lost = |story: Story| story.complete((120, 130), (1, 5), 7, Lost);
    right(&lost(held().acquire((106, 115), 2, 110, 2)));
    right(&lost(held().unknown(106, 2)));
    wrong(&lost(held()));
    wrong(&lost(held()).acquire((131, 140), 2, 135, 2));
}

#[test]
fn one_token_has_one_result() {
    let again = |op, answer| {
        let done = held().complete((11, 20), (1, 5), 7, Done);
        done.hold((21, 30), (1, 5), op, answer)
    };
    let complete = |seal| Op::Complete { seal, ret: LEASE };
    let fail = || Op::Fail {
        seal: 7,
        ret: LEASE,
    };
    right(&again(complete(7), Done));
    right(&again(complete(8), AlreadySealed));
    right(&again(fail(), AlreadySealed));
    wrong(&again(complete(8), Done));
    wrong(&again(fail(), Done));
    wrong(&again(complete(7), AlreadySealed));
}

#[test]
fn a_replay_is_of_what_was_stored_under_its_token() {
    let replay = |at, seal| {
        let done = held().complete((11, 20), (1, 5), 7, Done);
        done.claim((21, 30), 2, completed(at, seal))
    };
    right(&replay(5, 7));
    wrong(&replay(5, 8));
    wrong(&replay(6, 7));
}

#[test]
fn a_completion_without_answer_may_be_replayed_but_not_before_it_was_asked_for() {
    let replay = |times| {
        let asked = held().complete((50, 51), (1, 5), 7, Unknown);
        asked.claim(times, 2, completed(5, 7))
    };
    right(&replay((60, 70)));
    wrong(&replay((20, 30)));
}
