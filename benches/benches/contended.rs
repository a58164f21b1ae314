//! 64 callers with one key, with and without single flight, against one claim and one replay.

mod support;

use idem_benches::{Plan, groups};
use idem_core::BoxError;
use support::Suite;

const CALLERS: usize = 64;

fn benches(suite: &mut Suite, _: Plan) -> Result<(), BoxError> {
    for subject in suite.subjects() {
        let arena = suite.wait(subject.arena())?;
        let group = suite.wait(groups::contended(&arena))?;
        suite.bench(("contended", subject.name(), CALLERS), &group);
        suite.wait(arena.close())?;
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    support::main(benches)
}
