//! Recorded histories, shrunk, which the judge has to refuse as on the day that they were recorded.

use std::process::ExitCode;

use idem_conformance::mutants::Bug;
use idem_prove::cluster::without_losses;
use idem_prove::fixtures::{self, Fixture};
use idem_prove::history::Calls;
use idem_prove::judge::judge;
use idem_prove::search::Bounds;
use idem_prove::shrink::shrink;

/// The longest fixture, which somebody has to read.
const LINES: usize = 40;

const RECORDED: &[Bug] = &[
    Bug::CheckThenInsert,
    Bug::LastWriterWins,
    Bug::NoFencing,
    Bug::IgnoresToken,
    Bug::NeverExpires,
    Bug::ExpiresEarly,
    Bug::TokenStartsAgain,
    Bug::TakeoverKeepsToken,
    Bug::ReplaysToAnyRequest,
    Bug::AnyoneReleases,
    Bug::RenewalShortens,
    Bug::LateHolderLoses,
    Bug::ForgetsOwnClaim,
    Bug::SecondCompletionOverwrites,
    Bug::SweepFailsLive,
    Bug::CheckpointLostInTakeover,
];

/// Histories of real servers: a result is gone that a caller had got. Those of fail-overs were
/// recorded by `tests/hunts.rs` before the stores could prevent them. The one of a power cut is from a
/// campaign, where nothing may be lost: its loss was added, at the instants of the recorded cut. The
/// guarantees of `idem-mysql` say that it may happen.
const GONE: &[&str] = &[
    "MariaDbShowsWhatItHasNotWritten",
    "PostgresReplaysWaitingCommit",
    "RedisReplaysWaitingCompletion",
];

fn calls(name: &str) -> Calls {
    Fixture::named(name).unwrap().calls().unwrap()
}

#[test]
fn every_recorded_history_is_still_refused() {
    for bug in RECORDED {
        let fixture = Fixture::named(&format!("{bug:?}")).unwrap();
        let calls = fixture.calls().unwrap();
        let judgement = judge(&calls.history().unwrap(), Bounds::default());
        assert_eq!(judgement.refused.len(), 1, "{bug:?}: {judgement}");
        assert!(judgement.undecided.is_empty(), "{bug:?}: {judgement}");
        let lines = fixture.text.lines().count();
        assert!(lines <= LINES, "{bug:?} has {lines} lines");
    }
}

#[test]
fn a_result_that_was_told_and_is_gone_needs_a_loss() {
    for name in GONE {
        let calls = calls(name);
        let with = judge(&calls.history().unwrap(), Bounds::default());
        assert!(with.is_accepted() && with.losses == 1, "{name}: {with}");
        let calls = without_losses(&calls);
        let without = judge(&calls.history().unwrap(), Bounds::default());
        assert_eq!(without.refused.len(), 1, "{name}: {without}");
        assert_eq!(shrink(&calls, Bounds::default()).unwrap(), calls, "{name}");
    }
}

#[test]
fn every_kept_history_has_its_verdict() {
    assert_eq!(fixtures::run().unwrap(), ExitCode::SUCCESS);
}

#[test]
fn a_fixture_cannot_be_shrunk_further() {
    for bug in &RECORDED[..3] {
        let calls = calls(&format!("{bug:?}"));
        assert_eq!(shrink(&calls, Bounds::default()).unwrap(), calls, "{bug:?}");
    }
}

/// A claim that is sent at the start of the machine's clock, takes so long, and is won at `now`.
fn won(id: u64, key: &str, took: i64, now: i64) -> String {
    let lease_end = now + 1_000_000;
    [
        format!(
            r#"{{"t":"inv","id":{id},"c0":0,"k":"{key}","op":"claim","fp":1,"lease":1000000,"ret":3600000000,"takeover":true,"retry":true,"att":1,"tok":0}}"#
        ),
        format!(
            r#"{{"t":"ret","id":{id},"c1":{took},"now":{now},"ans":"acquired","tok":{now},"n":1,"lease_end":{lease_end}}}"#
        ),
        String::new(),
    ]
    .join("\n")
}

/// The key's claim says within 11 s when the store had which instant, so its duplicate may come before
/// the end of the lease. With the other keys' claims, which took 100 µs, it came 5 s later.
#[test]
fn claims_of_other_keys_stay_where_they_show_the_clock() {
    const NOW: i64 = 1_000_000_000_000;
    let mut text = r#"{"t":"head","v":1,"cell":"clock","seed":1,"quantum":1}
{"t":"inv","id":2,"c0":11000000,"k":"one","op":"claim","fp":1,"lease":1000000,"ret":3600000000,"takeover":true,"retry":true,"att":2,"tok":0}
{"t":"ret","id":2,"c1":11001000,"ans":"in_flight","tok":1000000000000,"lease_end":1000001000000}
"#
    .to_owned();
    text += &won(1, "one", 10_900_000, NOW);
    let refused = |calls: &Calls| {
        let judgement = judge(&calls.history().unwrap(), Bounds::default());
        judgement.refused.len()
    };
    assert_eq!(refused(&Calls::parse(&text).unwrap()), 0, "without others");
    for id in 3..20 {
        text += &won(id, &id.to_string(), 100, NOW - 5_000_000);
    }
    let calls = Calls::parse(&text).unwrap();
    assert_eq!(refused(&calls), 1, "with others");
    let shrunk = shrink(&calls, Bounds::default()).unwrap();
    assert_eq!(refused(&shrunk), 1);
    assert_eq!(shrunk.seen.len(), 3, "{shrunk:?}");
}

/// The sweep began after the renewal, and ended the claim before its answer: without it, the answer
/// would be refused instead of the one that is wrong.
#[test]
fn what_ran_beside_a_call_that_is_left_stays() {
    let calls = calls("MySqlRenewalSeenAndLost");
    let shrunk = shrink(&calls, Bounds::default()).unwrap();
    assert!(
        shrunk.to_ndjson().unwrap().contains("in_flight"),
        "{shrunk:?}"
    );
}

#[test]
fn a_torn_last_line_is_dropped_and_a_torn_other_line_is_an_error() {
    let text = Fixture::named("CheckThenInsert").unwrap().text;
    let whole = Calls::parse(&text).unwrap();
    let torn = &text[..text.len() - 3];
    let left = Calls::parse(torn).unwrap();
    assert_eq!(left.seen.len(), whole.seen.len());
    assert_eq!(
        left.seen.last().unwrap().answer,
        None,
        "its outcome is unknown"
    );
    let mut lines: Vec<&str> = text.lines().collect();
    let half = &lines[1][..lines[1].len() / 2];
    lines[1] = half;
    let error = Calls::parse(&(lines.join("\n") + "\n")).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
    assert!(Calls::parse("").is_err() && Calls::parse("{}\n").is_err());
}
