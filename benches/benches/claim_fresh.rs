//! A claim of a key that nobody has claimed, alone and coalesced, against the insert.

mod support;

use idem_benches::{Plan, groups};
use idem_core::BoxError;
use support::Suite;

const PATH: &str = "claim_fresh";

fn benches(suite: &mut Suite, plan: Plan) -> Result<(), BoxError> {
    for subject in suite.subjects() {
        let arena = suite.wait(subject.arena())?;
        for &callers in plan.pick(&[1, 8, 64, 512][..], &[1, 64]) {
            let group = suite.wait(groups::claim_fresh(&arena))?;
            suite.bench((PATH, subject.name(), callers), &group);
        }
        suite.wait(arena.close())?;
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    support::main(benches)
}
