//! Two cells with fail-overs, briefly: one that must lose, one that must hold.

#[path = "support/servers.rs"]
mod servers;

use std::process::Command;

use servers::are_here;

fn run(cell: &str) {
    if !are_here(&["redis"]) {
        return;
    }
    let mut prove = Command::new(env!("CARGO_BIN_EXE_prove"));
    let output = prove
        .args(["cell", cell, "--seconds", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{cell}");
    assert!(said.contains("was killed"), "{cell}");
}

#[test]
fn a_fail_over_loses_what_the_replica_lacks() {
    run("redis-replica/fail-over");
}

#[test]
fn a_fail_over_loses_nothing_that_was_told_where_the_store_waits_for_replicas() {
    run("redis-wait/cut-fail-over");
}
