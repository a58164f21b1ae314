//! The tables in the documentation are true.

use idem_http::ProblemType;

const DRAFT: &str = include_str!("draft.rs");
const PROBLEMS: &str = include_str!("../../src/problem_type.rs");

const TESTS: [&str; 16] = [
    include_str!("differences.rs"),
    include_str!("draft.rs"),
    include_str!("engine.rs"),
    include_str!("faults.rs"),
    include_str!("grpc.rs"),
    include_str!("keys.rs"),
    include_str!("limits.rs"),
    include_str!("loopback.rs"),
    include_str!("passing.rs"),
    include_str!("presets/commerce.rs"),
    include_str!("raw.rs"),
    include_str!("replays.rs"),
    include_str!("routes.rs"),
    include_str!("scopes.rs"),
    include_str!("statuses.rs"),
    include_str!("transcripts.rs"),
];

/// The rows of the first table in the comments of this source, cell by cell.
fn table(source: &'static str) -> Vec<Vec<&'static str>> {
    let lines = source
        .lines()
        .map(|line| line.trim_start_matches(['/', '!']).trim());
    let rows = lines.skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

#[test]
fn every_rule_of_the_draft_names_a_test_that_exists() {
    let rows = table(DRAFT);
    assert!(rows.len() > 15);
    for row in rows {
        let test = row[2].trim_matches('`');
        let function = format!("fn {test}()");
        assert!(TESTS.iter().any(|file| file.contains(&function)), "{test}");
    }
}

#[test]
fn every_test_of_the_draft_has_its_row() {
    let rows = table(DRAFT);
    let tests = DRAFT.lines();
    for function in tests.filter_map(|line| line.strip_prefix("async fn ")) {
        let test = function.trim_end_matches("() {");
        assert!(
            rows.iter().any(|row| row[2].trim_matches('`') == test),
            "{test}"
        );
    }
}

#[test]
fn the_table_of_problems_is_complete() {
    let rows = table(PROBLEMS);
    assert_eq!(rows.len(), ProblemType::ALL.len());
    for (row, kind) in rows.iter().zip(ProblemType::ALL) {
        assert_eq!(row[0], format!("`{}`", kind.uri()));
        let status = kind.status().as_u16().to_string();
        assert!(row[1].starts_with(&status), "{row:?}");
    }
}
