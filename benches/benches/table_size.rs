//! Claims of fresh keys beside few rows and beside many. Ten million rows take minutes to make: the program `ratios` has them.

mod support;

use idem_benches::{Plan, groups};
use idem_core::BoxError;
use support::Suite;

const CALLERS: usize = 8;

fn benches(suite: &mut Suite, plan: Plan) -> Result<(), BoxError> {
    for subject in suite.subjects() {
        let sizes = plan.pick(&groups::TABLES[..2], &groups::TABLES_QUICK[..]);
        let (arenas, group) = suite.wait(groups::table_size(&subject, sizes))?;
        if !group.is_empty() {
            suite.bench(("table_size", subject.name(), CALLERS), &group);
        }
        for arena in arenas {
            suite.wait(arena.close())?;
        }
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    support::main(benches)
}
