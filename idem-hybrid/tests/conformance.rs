//! The suite against databases with a cache in front that is healthy or suffers:
//! `hybrid-<database>-<state>`; and one of them behind `Protected`.
//!
//! By default, each state is in front of SQLite, and each database is behind a healthy cache.
//! `IDEM_ALL` adds the rest of the product, and `IDEM_BACKENDS` reaches all of it by name.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Protected, Target};
use support::{Database, HybridHarness, State};

fn main() -> ExitCode {
    let all = ["IDEM_ALL", "IDEM_BACKENDS"].map(|name| std::env::var_os(name).is_some());
    let is_wanted = move |database, state| {
        all.contains(&true) || database == Database::Sqlite || state == State::Healthy
    };
    let targets = Database::ALL.into_iter().flat_map(|database| {
        let states = State::ALL.into_iter();
        let wanted = states.filter(move |state| is_wanted(database, *state));
        wanted.map(move |state| {
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
