//! Power cuts, end to end, on machines that can inject them.

use std::process::{Command, Output};

use idem_prove::history::Calls;
use idem_prove::judge::{Judgement, judge};
use idem_prove::search::Bounds;

/// Runs a cell for a moment.
fn run(name: &str, histories: &std::path::Path) -> Output {
    let mut prove = Command::new(env!("CARGO_BIN_EXE_prove"));
    prove.args(["cell", name, "--seed", "1", "--seconds", "1", "--histories"]);
    prove.arg(histories).output().unwrap()
}

/// Judges the history as if nothing might be lost.
fn judged_without_losses(histories: &std::path::Path, name: &str) -> Judgement {
    let folder = histories.join(name.replace('/', "-")).join("1");
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(",\"loses\":true", "")).unwrap();
    }
    let history = Calls::read(&folder).unwrap().history().unwrap();
    judge(&history, Bounds::default())
}

/// What a power cut must not lose is there, and what it may lose is missed.
fn power_cuts_lose_what_is_documented(holds: &str, loses: &str) {
    let histories = tempfile::tempdir().unwrap();
    for (name, is_loss) in [(holds, false), (loses, true)] {
        let output = run(name, histories.path());
        let said = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}{errors}");
        assert!(said.contains("power cut on disk"), "{said}");
        assert!(said.contains(&format!("{name}: accepted")), "{said}");
        assert_eq!(said.contains(" 0 losses"), !is_loss, "{said}");
    }
    let judgement = judged_without_losses(histories.path(), loses);
    assert!(!judgement.refused.is_empty(), "{judgement}");
}

#[test]
#[ignore = "needs root, loop devices and a server"]
fn power_cuts_lose_what_is_documented_on_sqlite() {
    power_cuts_lose_what_is_documented("sqlite/power-cut", "sqlite-normal/power-cut");
}

#[test]
#[ignore = "needs root, loop devices and a server"]
fn power_cuts_lose_what_is_documented_on_postgres() {
    power_cuts_lose_what_is_documented("postgres/power-cut", "postgres-async/power-cut");
}

#[test]
fn a_cell_that_does_not_exist_is_an_error() {
    let mut prove = Command::new(env!("CARGO_BIN_EXE_prove"));
    let output = prove
        .args(["cell", "postgres/earthquake"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!output.stderr.is_empty());
}
