//! Traces that real servers wrote: each is accepted as it is, and refused at a named line with one
//! field altered.
//!
//! `prove trace STORE --steps 0 --scripts lab/traces` records them.

use std::path::PathBuf;

use idem_prove::trace::{NAMES, Trace, coverage, validate};
use serde_json::Value;

fn texts() -> Vec<(String, String)> {
    texts_of("traces")
}

fn texts_of(folder: &str) -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let paths = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.is_file());
    let mut texts: Vec<(String, String)> = paths
        .map(|path| {
            let name = path
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .replace('-', " ");
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn what_a_server_wrote_is_accepted_and_shows_its_transition() {
    let mut verdicts = Vec::new();
    for (name, text) in texts() {
        let verdict = validate(&Trace::parse(&text).unwrap()).unwrap();
        assert!(verdict.is_accepted(), "{name}: {verdict}");
        let transition = name.split_once(' ').unwrap().1;
        assert!(verdict.coverage.times(transition) > 0, "{name}: {verdict}");
        verdicts.push(verdict);
    }
    let missing = coverage(&verdicts).missing();
    assert!(missing.is_empty(), "no trace shows {missing:?}");
}

/// The field that is altered in the last line of a kind, for the transition of a trace.
fn broken(transition: &str) -> (&'static str, &'static str) {
    match NAMES.iter().position(|name| *name == transition).unwrap() {
        // Token, acquisitions, end of the lease, hash, fingerprint, attempt.
        0 | 5 => ("log", "/row/tok"),
        1..=3 => ("log", "/row/n"),
        4 | 10 => ("log", "/row/lease_end"),
        6 | 13 => ("log", "/row/expires"),
        7 => ("log", "/row/att"),
        8 | 9 | 12 => ("log", "/row/hash"),
        11 => ("log", "/row/tok"),
        // It was committed before the record had expired.
        14 => ("log", "/now"),
        // Another record than that of the released claim.
        15 => ("log", "/k"),
        16 => ("ret", "/fp"),
        17 => ("ret", "/tok"),
        18 | 19 | 24 => ("ret", "/seal"),
        _ => ("ret", "/ans"),
    }
}

/// Returns the field with another value.
fn altered(transition: &str, field: &str, value: &Value) -> Value {
    match (field, transition) {
        ("/k", _) => Value::from("0123456789abcdef"),
        ("/now", _) => Value::from(value.as_i64().unwrap() - 3_600_000_000),
        ("/ans", "completion again" | "release again") => Value::from("lost"),
        ("/ans", _) => Value::from("done"),
        // Stores round to milliseconds, and answers name the ends of leases.
        ("/row/lease_end" | "/row/expires", _) => Value::from(value.as_i64().unwrap() + 5_000_000),
        _ => match value.as_u64() {
            Some(number) => Value::from(number ^ 1),
            None => panic!("{field} is {value}"),
        },
    }
}

#[test]
fn one_altered_field_is_refused_at_its_line() {
    let mut twins = 0;
    for (name, text) in texts() {
        let transition = name.split_once(' ').unwrap().1;
        let (kind, field) = broken(transition);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let begins = format!("{{\"t\":\"{kind}\"");
        let parsed = |line: &String| serde_json::from_str::<Value>(line).unwrap();
        let has_field =
            |line: &String| line.starts_with(&begins) && parsed(line).pointer(field).is_some();
        let at = lines.iter().rposition(has_field);
        let at = at.unwrap_or_else(|| panic!("{name}: no {field}"));
        let mut line = parsed(&lines[at]);
        let value = line.pointer_mut(field).unwrap();
        *value = altered(transition, field, value);
        // The tag comes first, as it is written.
        line.as_object_mut().unwrap().remove("t");
        let rest = serde_json::to_string(&line).unwrap();
        lines[at] = format!("{begins},{}", &rest[1..]);
        let verdict = validate(&Trace::parse(&(lines.join("\n") + "\n")).unwrap()).unwrap();
        let refused: Vec<usize> = verdict.refused.iter().map(|refusal| refusal.line).collect();
        assert_eq!(refused, [at + 1], "{name}, {field}: {verdict}");
        twins += 1;
    }
    assert!(twins >= 25, "only {twins} traces have a broken twin");
}

/// A claim of the one takes effect three times, and a renewal of the other is lost only when it looks
/// again. In the third, which is written by hand, a claim takes effect and loses it to another before it
/// looks; the same attempt claims again later, without an answer: the effect is not that one's, or the
/// other's claim would come after it.
#[test]
fn only_where_the_head_says_so_a_call_has_had_an_effect_before_its_answer() {
    let texts = texts_of("traces/again");
    assert_eq!(texts.len(), 3);
    for (name, text) in texts {
        let verdict = validate(&Trace::parse(&text).unwrap()).unwrap();
        assert!(verdict.is_accepted(), "{name}: {verdict}");
        assert!(verdict.repeated > 0, "{name}: {verdict}");
        let once = text.replace(r#""asks_again":true"#, r#""asks_again":false"#);
        assert_ne!(once, text);
        let verdict = validate(&Trace::parse(&once).unwrap()).unwrap();
        assert!(!verdict.is_accepted(), "{name}");
    }
}

/// A claim of the same attempt follows a renewal that was no longer than its lease, and so not in the
/// log. Where the clocks are not known well, the renewal would explain the claim's change.
#[test]
fn a_change_is_that_of_the_call_whose_answer_demands_it() {
    let texts = texts_of("traces/order");
    assert_eq!(texts.len(), 1);
    for (name, text) in texts {
        let trace = Trace::parse(&text).unwrap();
        let verdict = validate(&trace).unwrap();
        assert!(verdict.is_accepted(), "{name}: {verdict}");
        let mut without = Trace::new(trace.calls, trace.changes);
        without.changes.remove(2);
        let without = Trace::new(without.calls, without.changes);
        assert!(!validate(&without).unwrap().is_accepted(), "{name}");
    }
}

#[test]
fn an_effect_that_nobody_called_for_is_refused() {
    let (_, text) = texts().into_iter().next().unwrap();
    let whole = Trace::parse(&text).unwrap();
    let mut lost = whole.clone();
    lost.changes.clear();
    assert!(
        !validate(&lost).unwrap().is_accepted(),
        "an acknowledged effect is missing"
    );
    let mut twice = Trace::new(whole.calls.clone(), whole.changes.clone());
    twice.changes.extend(whole.changes.last().cloned());
    let twice = Trace::new(twice.calls, twice.changes);
    assert!(
        !validate(&twice).unwrap().is_accepted(),
        "one call has two effects"
    );
}
