//! The suite against databases with a cache in front that is healthy or suffers:
//! `hybrid-<database>-<state>`; and one of them behind `Protected`.
//!
//! A healthy cache in front of SQLite is the plain target. `IDEM_ALL` adds each state in front of
//! SQLite, a healthy cache in front of each database, and each state in front of one of the servers,
//! which take turns: no state depends on the database behind it; a draw (`IDEM_DRAW`) leaves these
//! out. `IDEM_BACKENDS` reaches the whole product by name.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Protected, Target};
use support::{Database, HybridHarness, State};

fn main() -> ExitCode {
    let by_name = std::env::var_os("IDEM_BACKENDS").is_some();
    let is_drawn = std::env::var_os("IDEM_DRAW").is_some();
    let servers = [Database::Postgres, Database::MySql].into_iter().cycle();
    let turns: Vec<_> = servers.zip(State::ALL).collect();
    let is_wanted = |database, state| {
        let is_first = database == Database::Sqlite || state == State::Healthy;
        by_name || is_first || (!is_drawn && turns.contains(&(database, state)))
    };
    let targets = Database::ALL.into_iter().flat_map(|database| {
        let mut states = State::ALL.to_vec();
        states.retain(|state| is_wanted(database, *state));
        states.into_iter().map(move |state| {
            let name = support::name(database, state);
            let harness = move || async move { HybridHarness::of(database, state) };
            let target = Target::new(name, harness).with_cases(cases::of(state));
            match (database, state) {
                (Database::Sqlite, State::Healthy) => target,
                _ => target.derived(),
            }
        })
    });
    let behind = || HybridHarness::of(Database::Sqlite, State::Healthy);
    let name = support::name(Database::Sqlite, State::Healthy) + "-protected";
    let protected = Target::new(name, move || async move { behind().map(Protected::new) });
    let protected = protected.derived();
    idem_conformance::main(targets.chain([protected]).collect())
}
