//! Drives the program `batch_load`.

#[path = "../storm/tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

use support::{run, trials};

const BATCH_LOAD: &str = env!("CARGO_BIN_EXE_batch_load");

fn main() -> ExitCode {
    support::main(trials![
        every_row_is_loaded_once,
        a_run_without_kills_is_as_good,
        loads_without_records_are_found_out,
    ])
}

fn every_row_is_loaded_once() {
    for seed in ["1", "2"] {
        let few = ["--seed", seed, "--files=8", "--rows=4000", "--kills=8"];
        let ran = run(BATCH_LOAD, &few);
        ran.ended(0, &["DuckDB ", "Every row was loaded exactly once."]);
        assert_eq!(ran.number("rows", "in the table"), 32_000);
        assert_eq!(ran.number("killed", "processes"), 8);
        // The last process alone answers twice for each file.
        let answered = ran.number("loads", "answered") + ran.number("replays", "before");
        assert!(answered >= 16, "{}", ran.stdout);
    }
}

fn a_run_without_kills_is_as_good() {
    let ran = run(BATCH_LOAD, &["--files=3", "--rows=100", "--kills=0"]);
    ran.ended(0, &["Every row was loaded exactly once."]);
    assert_eq!(ran.number("loads", "answered"), 3);
    assert_eq!(ran.number("replays", "before"), 3);
}

fn loads_without_records_are_found_out() {
    let ran = run(
        BATCH_LOAD,
        &["--files=3", "--rows=100", "--kills=0", "--sabotage"],
    );
    ran.ended(1, &["WRONG: rows were loaded twice", "Not every row"]);
}
