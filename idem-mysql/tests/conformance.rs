//! Runs the suite, and this crate's own cases, against MariaDB and MySQL; the suite there once more
//! with claims that always insert before they read; against three nodes of a Galera cluster, a
//! different one each time a store is opened; against one node, whose open transactions lock the
//! keys that they have claimed; behind `Batched`; and with hostile settings of the sessions.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Target};
use support::{hostile, target};

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
    let plain = |name| Target::new(name, move || async move { target(name) });
    let hostile = |name| Target::new(name, move || hostile(name));
    idem_conformance::main(vec![
        plain("mariadb").with_cases(cases::ALL),
        plain("mysql").with_cases(cases::ALL),
        plain("mariadb-insert-first"),
        plain("mysql-insert-first"),
        plain("galera"),
        plain("galera-node"),
        Target::new("mariadb-one-lane", async || {
            target("mariadb").map(Batched::new)
        }),
        hostile("mariadb-hostile"),
        hostile("mysql-hostile"),
    ])
}
