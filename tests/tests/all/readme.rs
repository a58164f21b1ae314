//! The documentation shows the current harness and cases. `IDEM_BLESS=1` writes it again.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use idem_conformance::cases;

const LAWS: [&str; 16] = [
    "One winner",
    "Losers learn the truth",
    "Replay is byte-exact",
    "Conflict",
    "Fencing",
    "Repeatable steps",
    "Release",
    "Expiry",
    "One clock",
    "Isolation",
    "Limits",
    "Crash",
    "Cancellation",
    "Unknown is unknown",
    "Replays are reads",
    "Bounded work",
];

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Checks that the part of the file between the two marks is `wanted`, or writes it. Each line
/// begins with `prefix`.
fn part_is(path: &str, prefix: &str, mark: &str, wanted: &str) {
    let text = read(path);
    let [begin, end] = ["begin", "end"].map(|edge| format!("{prefix}<!-- {edge} {mark} -->\n"));
    let mut prefixed = String::new();
    for line in wanted.lines() {
        writeln!(prefixed, "{}", format!("{prefix}{line}").trim_end()).expect("strings grow");
    }
    let (before, rest) = text.split_once(&begin).expect("the mark is there");
    let (part, after) = rest.split_once(&end).expect("the end is there");
    if std::env::var_os("IDEM_BLESS").is_some() {
        let blessed = format!("{before}{begin}{prefixed}{end}{after}");
        std::fs::write(file(path), blessed).expect("the file can be written");
        return;
    }
    assert!(
        part == prefixed,
        "{path}, {mark}: run with IDEM_BLESS=1\n{prefixed}"
    );
}

fn laws() -> String {
    let mut text = format!(
        "{} cases.\n\n| law | cases |\n| --- | --- |\n",
        cases().count()
    );
    for (number, law) in (1..).zip(LAWS) {
        let of_law = cases().filter(|case| case.law == number);
        let names: Vec<_> = of_law.map(|case| format!("`{}`", case.name)).collect();
        writeln!(text, "| {number}. {law} | {} |", names.join("<br>")).expect("strings grow");
    }
    text
}

#[test]
fn the_documentation_shows_the_harness_of_a_foreign_store_and_the_cases_of_each_law() {
    let path = "../examples/foreign-store/tests/conformance.rs";
    // The published crate does not contain it.
    if file(path).exists() {
        let harness = read(path);
        assert!(harness.lines().count() <= 40, "at most 40 lines");
        let shown = format!("```ignore\n{harness}```\n");
        part_is("src/harness.rs", "/// ", "harness", &shown);
    }
    part_is("README.md", "", "laws", &laws());
}

#[test]
fn every_law_has_its_cases_and_no_name_is_used_twice() {
    for law in 1..=16 {
        let count = cases().filter(|case| case.law == law).count();
        assert!(count >= 5, "law {law} has {count} cases");
    }
    let mut names: Vec<_> = cases().map(|case| case.full_name()).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count >= 60, "{count} cases");
}
