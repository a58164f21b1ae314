//! Connecting and the first claim, against connecting and the first insert.

mod support;

use idem_benches::{Plan, groups};
use idem_core::BoxError;
use support::Suite;

fn benches(suite: &mut Suite, _: Plan) -> Result<(), BoxError> {
    for subject in suite.subjects() {
        let arena = suite.wait(subject.arena())?;
        let group = suite.wait(groups::cold_start(&arena))?;
        suite.bench(("cold_start", subject.name(), 1), &group);
        suite.wait(arena.close())?;
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    support::main(benches)
}
