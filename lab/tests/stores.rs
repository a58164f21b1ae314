//! Recorded traffic on real stores, and on stores that are wrong on purpose.

mod support;

use std::time::Duration;

use idem_conformance::mutants::{Bug, MutantStore};
use idem_core::MemoryStore;
use idem_prove::history::Calls;
use idem_prove::judge::{Judgement, judge};
use idem_prove::search::Bounds;
use idem_prove::traffic::{Plan, seed};

use support::record;

fn verdict(calls: &Calls) -> Option<Judgement> {
    let history = calls.history().ok()?;
    Some(judge(&history, Bounds::default()))
}

#[test]
fn traffic_on_the_memory_store_is_explained() {
    let plan = Plan {
        seed: seed(),
        ..Plan::default()
    };
    let judgement = verdict(&record("memory", MemoryStore::new(), plan).0).unwrap();
    assert!(judgement.is_accepted(), "{judgement}");
    println!("{judgement}");
}

#[test]
fn traffic_on_the_store_of_the_mutants_is_explained_without_a_bug() {
    let plan = Plan {
        seed: seed(),
        ..Plan::default()
    };
    let judgement = verdict(&record("mutant", MutantStore::new(Bug::None), plan).0).unwrap();
    assert!(judgement.is_accepted(), "{judgement}");
}

/// The bugs that this traffic does not show, and why.
const ELSEWHERE: &[(&str, &[Bug])] = &[
    ("the callers' clocks are right", &[Bug::ClientClock]),
    ("the store is never opened again", &[Bug::Volatile]),
    (
        "the numbers that sweeps and purges return are not judged",
        &[
            Bug::SweepCountsThenFails,
            Bug::PurgeIgnoresLimit,
            Bug::PurgeTellsLimit,
        ],
    ),
    (
        "a purge may forget a released claim",
        &[Bug::SecondReleaseFails],
    ),
    ("nothing is over the limits", &[Bug::ChecksNothing]),
    (
        "there are no batches",
        &[
            Bug::BatchStopsAtError,
            Bug::BatchChecksThenInserts,
            Bug::BatchReleasesFailures,
        ],
    ),
    (
        "there are no watermarks",
        &[
            Bug::MarkLastWriterWins,
            Bug::MarkChecksThenWrites,
            Bug::EqualVersionIsStale,
            Bug::EqualVersionAdvances,
            Bug::MarkOfTheScope,
            Bug::MarkIsText,
            Bug::MarkIsFloat,
            Bug::MarkNeverExpires,
            Bug::MarkKeepsFirstRetention,
            Bug::StaleVersionKeepsMark,
            Bug::PurgeTakesLiveMarks,
            Bug::MarksGoWithRecords,
        ],
    ),
    (
        "there are no forced steps and lists",
        &[
            Bug::ForceIgnoresToken,
            Bug::ForceLeavesHolder,
            Bug::ForceChecksThenWrites,
            Bug::ForceIsNotRecorded,
            Bug::ListSkips,
            Bug::ListShowsExpired,
            Bug::RewriteExtendsRetention,
            Bug::RewriteIgnoresToken,
        ],
    ),
    (
        "there are no transactions",
        &[
            Bug::IgnoresTransactions,
            Bug::LosesBesideTransactions,
            Bug::WaitsForTransactions,
        ],
    ),
    (
        "capabilities and texts are not judged",
        &[
            Bug::OffersLess,
            Bug::DebugShowsKeys,
            Bug::ErrorQuotesPayload,
            Bug::LogsKey,
            Bug::PanicQuotesKey,
        ],
    ),
];

/// Returns the number of rounds after which the bug is caught.
fn rounds_to_catch(bug: Bug, most: u64) -> Option<u64> {
    let seed = seed();
    (1..=most).find(|round| {
        let plan = Plan {
            seed: seed.wrapping_add(*round),
            lease: Duration::from_millis(8),
            ..Plan::default()
        };
        let (calls, late) = record("mutant", MutantStore::new(bug), plan);
        // Instants that no clock explains are a broken law, too.
        late > 0 || verdict(&calls).is_none_or(|verdict| !verdict.refused.is_empty())
    })
}

#[test]
fn traffic_alone_catches_every_bug_of_records() {
    let elsewhere: Vec<Bug> = ELSEWHERE
        .iter()
        .flat_map(|(_, bugs)| *bugs)
        .copied()
        .collect();
    let here = Bug::ALL.iter().filter(|bug| !elsewhere.contains(bug));
    let missed: Vec<&Bug> = here
        .filter(|bug| rounds_to_catch(**bug, 40).is_none())
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}
