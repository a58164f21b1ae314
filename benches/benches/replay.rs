//! A claim of a completed key, against the read by primary key.

mod support;

use idem_benches::{Plan, groups};
use idem_core::BoxError;
use support::Suite;

const PATH: &str = "replay";

fn benches(suite: &mut Suite, plan: Plan) -> Result<(), BoxError> {
    for subject in suite.subjects() {
        let arena = suite.wait(subject.arena())?;
        for &callers in plan.pick(&[1, 64][..], &[64]) {
            let group = suite.wait(groups::replay(&arena))?;
            suite.bench((PATH, subject.name(), callers), &group);
        }
        suite.wait(arena.close())?;
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    support::main(benches)
}
