//! Claims beside a purge of many expired rows, and without.

mod support;

use idem_benches::{Plan, groups};
use idem_core::BoxError;
use support::Suite;

const CALLERS: usize = 8;

fn benches(suite: &mut Suite, plan: Plan) -> Result<(), BoxError> {
    let expired = *plan.pick(&1_000_000, &100_000);
    let all = suite.subjects().into_iter();
    for subject in all.filter(|subject| subject.filler().is_some()) {
        let arena = suite.wait(subject.arena())?;
        let group = suite.wait(groups::delete_expired(&arena, expired))?;
        suite.bench(("purge", subject.name(), CALLERS), &group);
        suite.wait(arena.close())?;
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    support::main(benches)
}
