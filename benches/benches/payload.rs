//! The life of a key with responses of several sizes.

mod support;

use idem_benches::{Plan, groups};
use idem_core::BoxError;
use support::Suite;

const CALLERS: usize = 8;

fn benches(suite: &mut Suite, plan: Plan) -> Result<(), BoxError> {
    for subject in suite.subjects() {
        for (bytes, path) in plan.pick(&groups::PAYLOADS[..], &groups::PAYLOADS[1..2]) {
            let arena = suite.wait(subject.arena())?;
            let group = suite.wait(groups::payload(&arena, *bytes))?;
            suite.bench((path, subject.name(), CALLERS), &group);
            suite.wait(arena.close())?;
        }
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    support::main(benches)
}
