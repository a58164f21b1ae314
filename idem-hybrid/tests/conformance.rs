//! The suite against databases with a cache in front that is healthy or suffers:
//! `hybrid-<database>-<state>`; and one of them behind `Protected`.
//!
//! By default, each state is in front of SQLite, and each database is behind a healthy cache.
//! `IDEM_ALL` adds each state in front of one of the servers, which take turns: no state depends on
//! the database behind it. `IDEM_BACKENDS` reaches the whole product by name.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Protected, Target};
use support::{Database, HybridHarness, State};

fn main() -> ExitCode {
    let [all, by_name] = ["IDEM_ALL", "IDEM_BACKENDS"].map(|name| std::env::var_os(name).is_some());
    let servers = [Database::Postgres, Database::MySql].into_iter().cycle();
    let added: Vec<_> = servers.zip(State::ALL).filter(|_| all).collect();
    let is_wanted = |database, state| {
        let is_first = database == Database::Sqlite || state == State::Healthy;
        by_name || is_first || added.contains(&(database, state))
    };
    let targets = Database::ALL.into_iter().flat_map(|database| {
        let mut states = State::ALL.to_vec();
        states.retain(|state| is_wanted(database, *state));
        states.into_iter().map(move |state| {
            let name = support::name(database, state);
            let harness = move || async move { HybridHarness::of(database, state) };
            Target::new(name, harness).with_cases(cases::of(state))
        })
    });
    let behind = || HybridHarness::of(Database::Sqlite, State::Healthy);
    let name = support::name(Database::Sqlite, State::Healthy) + "-protected";
    let protected = Target::new(name, move || async move { behind().map(Protected::new) });
    idem_conformance::main(targets.chain([protected]).collect())
}
