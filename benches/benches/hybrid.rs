//! A cache in front of a database: when it has the answer, when it has none, when it is down.

mod support;

use std::sync::Arc;

use idem_benches::backends::{self, Hybrid};
use idem_benches::{Plan, groups};
use idem_core::{BoxError, IdempotencyStore};
use support::Suite;

const NAME: &str = "hybrid";
const CALLERS: usize = 64;

fn hit(suite: &mut Suite, hybrid: &Hybrid) -> Result<(), BoxError> {
    let Some(cache) = backends::subject("redis") else {
        return Ok(());
    };
    let (database, cache) = (
        suite.wait(hybrid.database().arena())?,
        suite.wait(cache.arena())?,
    );
    let group = suite.wait(groups::hybrid_hit(hybrid, &database, &cache))?;
    suite.bench(("hybrid_hit", NAME, CALLERS), &group);
    suite.wait(cache.close())?;
    suite.wait(database.close())
}

fn miss(suite: &mut Suite, path: &str, hybrid: &Hybrid) -> Result<(), BoxError> {
    let database = suite.wait(hybrid.database().arena())?;
    let store: Arc<dyn IdempotencyStore> = suite.wait(hybrid.store(database.namespace()))?;
    let group = groups::hybrid_miss(store, &database);
    suite.bench((path, NAME, CALLERS), &group);
    suite.wait(database.close())
}

fn benches(suite: &mut Suite, _: Plan) -> Result<(), BoxError> {
    let wanted = suite.subjects();
    if !wanted.iter().any(|subject| subject.name() == NAME) {
        return Ok(());
    }
    let Some(hybrid) = backends::hybrid() else {
        return Ok(());
    };
    hit(suite, &hybrid)?;
    miss(suite, "hybrid_miss", &hybrid)?;
    miss(suite, "hybrid_cache_down", &hybrid.down())
}

fn main() -> Result<(), BoxError> {
    support::main(benches)
}
