//! The oracle accepts the answers of a correct store and names the rule that a wrong one breaks.

mod support;

use std::time::Duration;

use idem_conformance::history::{Answer, Op};
use idem_conformance::oracle::{Rule, judge};
use support::{bad, claim, completed, good, retrying, sealed, step, unknown};

use Answer::{Acquired, AlreadySealed, Done, InFlight, Lost};

#[test]
fn one_winner_and_its_replay_are_right() {
    good(&[
        claim(1, (0, 10), Acquired(1)),
        claim(2, (1, 9), InFlight(1)),
        sealed(Op::Complete, 1, 1, (11, 20), "r", Done),
        claim(3, (15, 25), InFlight(1)),
        claim(4, (21, 30), completed(1, "r")),
        claim(5, (200, 210), Acquired(2)),
    ]);
}

#[test]
fn a_retention_may_end_by_a_tick_of_the_stores_clock_too_early() {
    let history = [
        claim(1, (0, 10), Acquired(1)),
        sealed(Op::Complete, 1, 1, (11, 20), "r", Done),
        claim(2, (105, 108), Acquired(2)),
    ];
    let rules = |nanos| {
        let violations = judge(&history, Duration::from_nanos(nanos));
        violations
            .iter()
            .map(|found| found.rule)
            .collect::<Vec<_>>()
    };
    assert_eq!(rules(2), [Rule::SecondWinner, Rule::ReplayMissed]);
    assert_eq!(rules(3), []);
}

#[test]
fn keys_are_judged_apart() {
    let mut other = claim(2, (0, 10), Acquired(1));
    other.call.key = "other".to_owned();
    good(&[claim(1, (0, 10), Acquired(1)), other]);
}

#[test]
fn one_token_for_two_attempts_is_wrong() {
    bad(
        Rule::TokenGivenTwice,
        &[
            claim(1, (0, 10), Acquired(1)),
            claim(2, (0, 10), Acquired(1)),
        ],
    );
}

#[test]
fn one_attempt_may_be_told_of_its_token_twice() {
    good(&[
        claim(1, (0, 10), Acquired(1)),
        claim(1, (20, 30), Acquired(1)),
    ]);
}

#[test]
fn a_token_that_does_not_grow_is_wrong() {
    bad(
        Rule::TokenDidNotGrow,
        &[
            claim(1, (0, 10), Acquired(5)),
            claim(2, (200, 210), Acquired(4)),
        ],
    );
}

#[test]
fn tokens_of_claims_at_the_same_time_may_be_in_any_order() {
    let release = step(Op::Release, 2, 4, (5, 8), Done);
    good(&[
        claim(1, (0, 20), Acquired(5)),
        claim(2, (0, 4), Acquired(4)),
        release,
    ]);
}

#[test]
fn a_second_winner_within_the_lease_is_wrong() {
    bad(
        Rule::SecondWinner,
        &[
            claim(1, (0, 10), Acquired(1)),
            claim(2, (20, 30), Acquired(2)),
        ],
    );
}

#[test]
fn a_takeover_after_the_lease_is_right() {
    good(&[
        claim(1, (0, 10), Acquired(1)),
        claim(2, (90, 101), Acquired(2)),
    ]);
}

#[test]
fn a_takeover_within_a_renewed_lease_is_wrong() {
    bad(
        Rule::SecondWinner,
        &[
            claim(1, (0, 10), Acquired(1)),
            step(Op::Renew, 1, 1, (50, 60), Done),
            claim(2, (110, 120), Acquired(2)),
        ],
    );
}

#[test]
fn a_renewal_without_answer_protects_nobody() {
    good(&[
        claim(1, (0, 10), Acquired(1)),
        step(Op::Renew, 1, 1, (50, 60), unknown()),
        claim(2, (110, 120), Acquired(2)),
    ]);
}

#[test]
fn a_winner_after_a_release_is_right_and_so_if_it_had_no_answer() {
    for answer in [Done, unknown()] {
        good(&[
            claim(1, (0, 10), Acquired(1)),
            step(Op::Release, 1, 1, (11, 15), answer),
            claim(2, (12, 20), Acquired(2)),
        ]);
    }
}

#[test]
fn a_winner_before_the_release_was_asked_for_is_wrong() {
    bad(
        Rule::SecondWinner,
        &[
            claim(1, (0, 10), Acquired(1)),
            claim(2, (11, 15), Acquired(2)),
            step(Op::Release, 1, 1, (20, 25), Lost),
        ],
    );
}

#[test]
fn only_a_claim_that_says_so_retries_a_failure() {
    let failed = [
        claim(1, (0, 10), Acquired(1)),
        sealed(Op::Fail, 1, 1, (11, 15), "no", Done),
    ];
    let again = claim(2, (20, 30), Acquired(2));
    good(&[failed.as_slice(), &[retrying(again.clone())]].concat());
    bad(Rule::SecondWinner, &[failed.as_slice(), &[again]].concat());
}

#[test]
fn a_winner_after_a_completion_is_wrong_even_if_the_lease_is_over() {
    bad(
        Rule::SecondWinner,
        &[
            claim(1, (0, 10), Acquired(1)),
            sealed(Op::Complete, 1, 1, (95, 120), "r", Done),
            claim(2, (100, 110), Acquired(2)),
        ],
    );
}

#[test]
fn a_claim_without_answer_explains_a_missing_winner_never_a_second() {
    good(&[
        claim(1, (0, u64::MAX), unknown()),
        claim(2, (5, 10), InFlight(1)),
    ]);
    bad(
        Rule::SecondWinner,
        &[
            claim(1, (0, 10), Acquired(1)),
            claim(3, (0, u64::MAX), unknown()),
            claim(2, (20, 30), Acquired(2)),
        ],
    );
}

#[test]
fn a_loser_of_nobody_is_wrong() {
    bad(Rule::LoserWithoutWinner, &[claim(1, (0, 10), InFlight(1))]);
    bad(
        Rule::LoserWithoutWinner,
        &[
            claim(1, (0, 10), InFlight(1)),
            claim(2, (20, 30), unknown()),
        ],
    );
}

/// The first claim acquired the key under 1, and its lease ended before its answer came.
#[test]
fn a_claim_that_outlived_its_lease_may_have_won_unseen() {
    let seen = claim(2, (60, 70), InFlight(1));
    let next = claim(3, (120, 130), Acquired(2));
    good(&[claim(1, (0, 140), InFlight(2)), seen.clone(), next.clone()]);
    for too_quick_or_too_early in [
        claim(1, (50, 140), InFlight(2)),
        claim(1, (0, 140), InFlight(1)),
        claim(1, (80, 190), InFlight(2)),
    ] {
        bad(
            Rule::LoserWithoutWinner,
            &[too_quick_or_too_early, seen.clone(), next.clone()],
        );
    }
}

#[test]
fn success_of_somebody_who_never_claimed_is_wrong() {
    bad(
        Rule::DoneWithoutClaim,
        &[step(Op::Renew, 1, 1, (0, 10), Done)],
    );
    bad(
        Rule::DoneWithoutClaim,
        &[
            claim(1, (0, 10), Acquired(1)),
            step(Op::Renew, 2, 1, (20, 30), Done),
        ],
    );
}

#[test]
fn success_of_an_old_holder_is_wrong() {
    for op in [Op::Complete, Op::Fail, Op::Release, Op::Renew] {
        bad(
            Rule::DoneAfterLoss,
            &[
                claim(1, (0, 10), Acquired(1)),
                claim(2, (101, 110), Acquired(2)),
                step(op, 1, 1, (120, 130), Done),
            ],
        );
    }
}

#[test]
fn a_late_holder_may_succeed_while_nobody_has_won() {
    good(&[
        claim(1, (0, 10), Acquired(1)),
        sealed(Op::Complete, 1, 1, (150, 160), "r", Done),
        claim(2, (161, 170), completed(1, "r")),
    ]);
}

#[test]
fn losing_to_somebody_is_right_and_to_nobody_is_wrong() {
    let lost = sealed(Op::Complete, 1, 1, (120, 130), "r", Lost);
    good(&[
        claim(1, (0, 10), Acquired(1)),
        claim(2, (101, 110), Acquired(2)),
        lost.clone(),
    ]);
    good(&[
        claim(1, (0, 10), Acquired(1)),
        claim(2, (101, u64::MAX), unknown()),
        lost.clone(),
    ]);
    bad(
        Rule::LostWithoutReason,
        &[claim(1, (0, 10), Acquired(1)), lost.clone()],
    );
    bad(
        Rule::LostWithoutReason,
        &[
            claim(1, (0, 10), Acquired(1)),
            lost,
            claim(2, (131, 140), Acquired(2)),
        ],
    );
}

#[test]
fn two_results_under_one_token_are_wrong() {
    let first = [
        claim(1, (0, 10), Acquired(1)),
        sealed(Op::Complete, 1, 1, (11, 20), "r", Done),
    ];
    let same = sealed(Op::Complete, 1, 1, (21, 30), "r", Done);
    let refused = sealed(Op::Complete, 1, 1, (21, 30), "s", AlreadySealed);
    good(&[first.as_slice(), &[same, refused]].concat());
    for other in [
        sealed(Op::Complete, 1, 1, (21, 30), "s", Done),
        sealed(Op::Fail, 1, 1, (21, 30), "r", Done),
    ] {
        bad(Rule::SealedTwice, &[first.as_slice(), &[other]].concat());
    }
}

#[test]
fn a_replay_of_something_else_is_wrong() {
    let history = |token, text: &str| {
        [
            claim(1, (0, 10), Acquired(1)),
            sealed(Op::Complete, 1, 1, (11, 20), "r", Done),
            claim(2, (21, 30), completed(token, text)),
        ]
    };
    good(&history(1, "r"));
    bad(Rule::ReplayOfNothing, &history(1, "s"));
    bad(Rule::ReplayOfNothing, &history(2, "r"));
}

#[test]
fn a_replay_of_a_completion_without_answer_is_right_but_not_before_it_was_asked_for() {
    let completion = sealed(Op::Complete, 1, 1, (50, u64::MAX), "r", unknown());
    let history = |span| {
        let won = claim(1, (0, 10), Acquired(1));
        [won, completion.clone(), claim(2, span, completed(1, "r"))]
    };
    good(&history((60, 70)));
    bad(Rule::ReplayOfNothing, &history((20, 30)));
}

#[test]
fn a_replay_of_a_refused_completion_is_wrong() {
    bad(
        Rule::ReplayOfNothing,
        &[
            claim(1, (0, 10), Acquired(1)),
            claim(2, (101, 110), Acquired(2)),
            sealed(Op::Complete, 1, 1, (111, 120), "r", Lost),
            claim(3, (121, 130), completed(1, "r")),
        ],
    );
}

#[test]
fn a_claim_after_a_completion_gets_it_until_the_retention_ends() {
    let history = |span, answer| {
        [
            claim(1, (0, 10), Acquired(1)),
            sealed(Op::Complete, 1, 1, (11, 20), "r", Done),
            claim(2, span, answer),
        ]
    };
    bad(Rule::ReplayMissed, &history((30, 40), InFlight(1)));
    bad(Rule::ReplayMissed, &history((30, 40), Acquired(2)));
    good(&history((15, 40), InFlight(1)));
    good(&history((30, 111), Acquired(2)));
    good(&history((30, 40), unknown()));
}

#[test]
fn a_claim_after_a_failure_gets_it_unless_it_was_retried() {
    let failed = Answer::Failed(1, "no".to_owned());
    let history = |last| {
        [
            claim(1, (0, 10), Acquired(1)),
            sealed(Op::Fail, 1, 1, (11, 20), "no", Done),
            last,
        ]
    };
    good(&history(claim(2, (30, 40), failed)));
    bad(
        Rule::ReplayMissed,
        &history(claim(2, (30, 40), InFlight(1))),
    );
    let retry = retrying(claim(3, (21, 29), Acquired(2)));
    good(
        &[
            history(claim(2, (30, 40), InFlight(2))).as_slice(),
            &[retry],
        ]
        .concat(),
    );
}
