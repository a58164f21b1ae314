//! The storm of the examples, on this store.

use std::process::Command;

#[test]
fn every_effect_happens_once() {
    // Beside this program, in the folder of the examples.
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().and_then(|deps| deps.parent()).unwrap();
    let mut storm = Command::new(folder.join("examples/file_storm"));
    storm.args(["--requests=60", "--crash-rate=0.1", "--seed=7"]);
    let ran = storm.output().expect("cargo builds it with the tests");
    let shown = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{shown}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(
        shown.contains("json-file") && shown.contains("exactly once"),
        "{shown}"
    );
}
