//! The life of a key: claim and response, against insert and update.

mod support;

use idem_benches::{Plan, groups};
use idem_core::{BoxError, Response};
use support::Suite;

const PATH: &str = "claim_complete";
const BODY: &str = r#"{"id":"ch_8f14e45fceea167a5a36dedd4bea2543","status":"succeeded"}"#;

fn benches(suite: &mut Suite, plan: Plan) -> Result<(), BoxError> {
    for subject in suite.subjects() {
        let arena = suite.wait(subject.arena())?;
        for &callers in plan.pick(&[1, 64][..], &[64]) {
            let response = Response::new(200, BODY);
            let group = suite.wait(groups::claim_complete(&arena, &response))?;
            suite.bench((PATH, subject.name(), callers), &group);
        }
        suite.wait(arena.close())?;
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    support::main(benches)
}
