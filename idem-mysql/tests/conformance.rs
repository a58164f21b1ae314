//! Runs the suite, and this crate's own cases, against MariaDB and MySQL; the suite there once more
//! with claims that always insert before they read; against three nodes of a Galera cluster, a
//! different one each time a store is opened; against one node, whose open transactions lock the
//! keys that they have claimed; behind `Batched`; and with hostile settings of the sessions.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Target};
use support::MySqlHarness;

fn main() -> ExitCode {
    if let Some(migrated) = cases::migrate_as_child() {
        return match migrated {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}: {:?}", error.source());
                ExitCode::FAILURE
            }
        };
    }
    let target = |name| Target::new(name, move || async move { MySqlHarness::of(name) });
    let hostile = |name| {
        Target::new(
            name,
            move || async move { MySqlHarness::hostile(name).await },
        )
    };
    let one_lane = || async { MySqlHarness::of("mariadb").map(Batched::new) };
    idem_conformance::main(vec![
        target("mariadb").with_cases(cases::ALL),
        target("mysql").with_cases(cases::ALL),
        target("mariadb-insert-first"),
        target("mysql-insert-first"),
        target("galera"),
        target("galera-node"),
        Target::new("mariadb-one-lane", one_lane),
        hostile("mariadb-hostile"),
        hostile("mysql-hostile"),
    ])
}
