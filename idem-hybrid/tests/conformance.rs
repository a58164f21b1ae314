//! The suite against every database with a cache in front that is healthy or suffers:
//! `hybrid-<database>-<state>`.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::Target;
use support::{Database, HybridHarness, State};

fn main() -> ExitCode {
    let targets = Database::ALL.into_iter().flat_map(|database| {
        State::ALL.into_iter().map(move |state| {
            let name = support::name(database, state);
            let harness = move || async move { HybridHarness::of(database, state) };
            Target::new(name, harness).with_cases(cases::of(state))
        })
    });
    idem_conformance::main(targets.collect())
}
