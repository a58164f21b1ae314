//! Drives the program `client` on the embedded store and on every available server.

#[path = "../storm/tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

use support::{on_stores, run, trials};

const CLIENT: &str = env!("CARGO_BIN_EXE_client");
const ONCE: &str = "Every order was charged exactly once.";

fn main() -> ExitCode {
    let mut all = trials![
        every_order_is_charged_once,
        a_run_without_kills_has_no_surprise,
        buyers_that_name_no_intent_are_found_out,
        a_store_that_cannot_be_used_is_explained,
    ];
    all.extend(on_stores("client", on_a_store));
    support::main(all)
}

fn every_order_is_charged_once() {
    for seed in ["1", "2"] {
        let ran = run(CLIENT, &["--seed", seed, "--orders=30", "--kills=15"]);
        ran.ended(0, &[ONCE]);
        assert_eq!(ran.number("orders", ""), 60);
        assert_eq!(ran.number("charged", "once each"), 60);
        assert_eq!(ran.number("answers", ""), 90);
        let output = &ran.stdout;
        assert!(ran.number("killed", "the server") > 0, "{output}");
        assert!(ran.number("killed", "buyers") > 0, "{output}");
        assert!(ran.number("crashed", "answer") > 0, "{output}");
        assert!(ran.number("replays", "") >= 30, "{output}");
    }
}

fn a_run_without_kills_has_no_surprise() {
    let ran = run(CLIENT, &["--seed=3", "--orders=10", "--kills=0"]);
    ran.ended(0, &[ONCE]);
    assert_eq!(ran.number("killed", ""), 0);
}

fn buyers_that_name_no_intent_are_found_out() {
    let ran = run(
        CLIENT,
        &["--seed=1", "--orders=20", "--kills=5", "--sabotage"],
    );
    ran.ended(1, &["two keys", "charged and never requested"]);
}

fn a_store_that_cannot_be_used_is_explained() {
    run(CLIENT, &["--store", "oracle://localhost"]).is_stopped(&["`oracle` is no store"]);
}

fn on_a_store(store: &str, product: &str) {
    let few = ["--store", store, "--orders=20", "--kills=8"];
    run(CLIENT, &few).ended(0, &[product, ONCE]);
}
