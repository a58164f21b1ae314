//! Histories with faults: lines that name them, and what they allow.

use idem_prove::history::Calls;
use idem_prove::judge::{Judgement, judge};
use idem_prove::search::Bounds;

const HEAD: &str = r#"{"t":"head","v":1,"cell":"made up","seed":1,"quantum":1}"#;

/// Judges lines, of which a call and its answer are one: their numbers and instants are in it.
fn verdict(lines: &[String]) -> Judgement {
    let text = format!("{HEAD}\n{}\n", lines.join("\n"));
    let history = Calls::parse(&text).unwrap().history().unwrap();
    judge(&history, Bounds::default())
}

fn call(id: u64, from: i64, to: i64, call: &str, answer: &str) -> String {
    format!(
        "{{\"t\":\"inv\",\"id\":{id},\"c0\":{from},{call}}}\n\
         {{\"t\":\"ret\",\"id\":{id},\"c1\":{to},{answer}}}"
    )
}

/// A claim that may not be taken over; its token is the instant at which it was granted.
fn claim(id: u64, from: i64, attempt: u64, now: i64, kept: i64) -> String {
    let asks = format!(
        "\"k\":\"a\",\"op\":\"claim\",\"fp\":1,\"lease\":1000,\"ret\":{kept},\
         \"takeover\":false,\"retry\":false,\"att\":{attempt}"
    );
    let end = now + 1000;
    let says =
        format!("\"now\":{now},\"ans\":\"acquired\",\"tok\":{now},\"n\":1,\"lease_end\":{end}");
    call(id, from, from + 10, &asks, &says)
}

fn complete(id: u64, from: i64, attempt: u64, token: i64) -> String {
    let asks = format!(
        "\"k\":\"a\",\"op\":\"complete\",\"seal\":7,\"ret\":1000000000,\
         \"att\":{attempt},\"tok\":{token}"
    );
    call(id, from, from + 10, &asks, "\"ans\":\"done\"")
}

fn get(id: u64, from: i64, answer: &str) -> String {
    call(id, from, from + 10, "\"k\":\"a\",\"op\":\"get\"", answer)
}

fn sweep(id: u64, from: i64, answer: &str) -> String {
    call(id, from, from + 10, "\"k\":\"\",\"op\":\"sweep\"", answer)
}

fn fault(from: i64, state: &str, more: &str) -> String {
    format!(
        "{{\"t\":\"nem\",\"what\":\"power cut\",\"on\":\"disk\",\"state\":\"{state}\",\
         \"proof\":\"p\",\"why\":\"w\",\"c0\":{from},\"c1\":{}{more}}}",
        from + 10
    )
}

const NOTHING: &str = "\"ans\":\"nothing\"";
const LOSES: &str = ",\"loses\":true";
const TAKES_BACK: &str = ",\"takes_back\":true";

#[test]
fn a_result_may_be_missing_only_after_a_fault_that_may_lose_it() {
    let history = |fault: &[String]| {
        let first = [
            claim(1, 0, 5, 100_000, 1_000_000_000),
            complete(2, 20, 5, 100_000),
        ];
        let last = [get(3, 100, NOTHING)];
        verdict(&[&first[..], fault, &last[..]].concat())
    };
    let lost = history(&[fault(50, "installed", LOSES)]);
    assert!(lost.is_accepted() && lost.losses == 1, "{lost}");
    let unclear = history(&[fault(50, "indeterminate", LOSES)]);
    assert!(unclear.is_accepted() && unclear.losses == 1, "{unclear}");
    assert!(!history(&[fault(50, "skipped", LOSES)]).is_accepted());
    assert!(!history(&[fault(50, "installed", "")]).is_accepted());
    assert!(!history(&[]).is_accepted());
    // Before the result there was nothing to lose.
    assert!(!history(&[fault(-50, "installed", LOSES)]).is_accepted());
}

#[test]
fn a_fault_may_take_back_a_shown_result_only_where_its_writer_had_no_answer() {
    let shown = "\"now\":100200,\"ans\":\"completed\",\"tok\":100000,\"seal\":7";
    let back = "\"now\":100400,\"ans\":\"in_flight\",\"tok\":100000,\"lease_end\":101000";
    let history = |writer: &str, more: &str| {
        verdict(&[
            claim(1, 0, 5, 100_000, 1_000_000_000),
            complete(2, 20, 5, 100_000).replace("\"ans\":\"done\"", writer),
            get(3, 200, shown),
            fault(300, "installed", more),
            get(4, 400, back),
        ])
    };
    let unknown = "\"ans\":\"unknown\"";
    let taken = history(unknown, TAKES_BACK);
    assert!(taken.is_accepted() && taken.losses == 1, "{taken}");
    assert!(!history(unknown, "").is_accepted());
    let done = "\"ans\":\"done\"";
    assert!(!history(done, TAKES_BACK).is_accepted());
    assert!(history(done, LOSES).is_accepted());
}

#[test]
fn a_sweep_without_an_answer_may_run_after_a_later_claim() {
    let abandoned =
        "\"now\":103000,\"ans\":\"failed\",\"tok\":100000,\"seal\":18446744073709551615";
    let history = |answer| {
        verdict(&[
            sweep(1, -50, answer),
            claim(2, 0, 5, 100_000, 1_000_000_000),
            get(3, 3_000, abandoned),
        ])
    };
    let unknown = history("\"ans\":\"unknown\"");
    assert!(unknown.is_accepted(), "{unknown}");
    // It was over before the claim.
    assert!(!history("\"ans\":\"done\"").is_accepted());
}

/// The clock goes back by 50 ms between two claims of a record that was kept for 1 ms.
fn tokens_over_a_step(step: &[String]) -> Judgement {
    let first = [claim(1, 0, 5, 100_000, 1_000)];
    let other = call(3, 5_200, 5_210, "\"k\":\"b\",\"op\":\"get\"", NOTHING);
    let last = [other, claim(4, 5_300, 6, 55_300, 1_000)];
    verdict(&[&first[..], step, &last[..]].concat())
}

#[test]
fn a_clock_that_was_set_begins_a_new_epoch() {
    let set = ",\"sets_clock\":true";
    let sets = fault(5_000, "installed", &format!("{set}{LOSES}"));
    let told = tokens_over_a_step(&[sets]);
    assert!(told.is_accepted() && told.losses == 1, "{told}");
    // Only a deleted record's tokens are forgotten, where that is documented.
    assert!(!tokens_over_a_step(&[fault(5_000, "installed", set)]).is_accepted());
    // A clock that nobody set does not go back.
    let text = [
        HEAD.to_owned(),
        claim(1, 0, 5, 100_000, 1_000),
        claim(2, 5_300, 6, 55_300, 1_000),
    ];
    let calls = Calls::parse(&(text.join("\n") + "\n")).unwrap();
    assert!(calls.history().is_err());
}

#[test]
fn a_live_record_is_not_forgotten_by_a_step_of_the_clock() {
    let sets = fault(5_000, "installed", &format!(",\"sets_clock\":true{LOSES}"));
    let lives = [
        claim(1, 0, 5, 100_000, 1_000_000_000),
        sets,
        claim(2, 5_300, 6, 55_300, 1_000),
    ];
    assert!(!verdict(&lives).is_accepted());
}

#[test]
fn a_claim_that_writes_and_then_looks_is_explained_only_where_stores_do_so() {
    let asks = |attempt| {
        format!(
            "\"k\":\"a\",\"op\":\"claim\",\"fp\":1,\"lease\":1000,\"ret\":1000000000,\
             \"takeover\":true,\"retry\":true,\"att\":{attempt}"
        )
    };
    let looks = "\"now\":103300,\"ans\":\"in_flight\",\"tok\":103200,\"lease_end\":104200";
    let retries = "\"now\":103200,\"ans\":\"acquired\",\"tok\":103200,\"n\":2,\"lease_end\":104200";
    // The second claim fails the first, which is stale; the third retries that failure at once.
    let lines = [
        claim(1, 0, 5, 100_000, 1_000_000_000),
        call(2, 3_000, 3_400, &asks(6), looks),
        call(3, 3_150, 3_250, &asks(7), retries),
    ];
    let judged = |asks_again: bool| {
        let head = HEAD.replace('}', &format!(",\"asks_again\":{asks_again}}}"));
        let text = format!("{head}\n{}\n", lines.join("\n"));
        judge(
            &Calls::parse(&text).unwrap().history().unwrap(),
            Bounds::default(),
        )
    };
    let asked_again = judged(true);
    assert!(
        asked_again.is_accepted() && asked_again.repeated == 1,
        "{asked_again}"
    );
    assert!(!judged(false).is_accepted());
}

const ABANDONED: &str =
    "\"now\":103000,\"ans\":\"failed\",\"tok\":100000,\"seal\":18446744073709551615";

#[test]
fn of_many_sweeps_without_an_answer_one_fails_an_abandoned_claim() {
    let open = (10..110).map(|id| sweep(id, 100 + id as i64, "\"ans\":\"unknown\""));
    let sweeps: Vec<String> = open.collect();
    let abandoned = claim(1, 0, 5, 100_000, 1_000_000_000);
    let read = get(2, 2_990, ABANDONED);
    let failed = verdict(
        &[
            std::slice::from_ref(&abandoned),
            &sweeps[..],
            std::slice::from_ref(&read),
        ]
        .concat(),
    );
    assert!(failed.is_accepted(), "{failed}");
    let unswept = verdict(&[abandoned.clone(), read.clone()]);
    assert_eq!(unswept.refused.len(), 1, "{unswept}");
    // A claim that may be taken over is failed by no sweep.
    let taken = abandoned.replace("\"takeover\":false", "\"takeover\":true");
    let failed = verdict(&[&[taken], &sweeps[..], &[read]].concat());
    assert_eq!(failed.refused.len(), 1, "{failed}");
    assert!(failed.undecided.is_empty(), "{failed}");
}

#[test]
fn a_sweep_may_fail_a_claim_again_that_a_fault_has_brought_back() {
    let lines = [
        claim(1, 0, 5, 100_000, 1_000_000_000),
        sweep(2, 1_500, "\"ans\":\"unknown\""),
        get(3, 2_990, ABANDONED),
        fault(3_100, "installed", LOSES),
        get(
            4,
            3_200,
            "\"now\":103205,\"ans\":\"in_flight\",\"tok\":100000,\"lease_end\":101000",
        ),
        sweep(5, 3_300, "\"ans\":\"unknown\""),
        get(6, 3_400, &ABANDONED.replace("103000", "103405")),
    ];
    let judged = verdict(&lines);
    assert!(judged.is_accepted() && judged.losses == 1, "{judged}");
}
