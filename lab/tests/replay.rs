//! Recorded calls that are made again, on a store with the same mistake and on one without.

use std::sync::Arc;

use idem_conformance::mutants::{Bug, MutantStore};
use idem_core::{IdempotencyStore, MemoryStore};
use idem_prove::fixtures::Fixture;
use idem_prove::history::{Calls, Head, Recorded, Recorder, VERSION};
use idem_prove::judge::judge;
use idem_prove::replay::replay;
use idem_prove::search::Bounds;

fn fixture(name: &str) -> Calls {
    Fixture::named(name).unwrap().calls().unwrap()
}

/// Returns whether a replay of the calls is refused.
async fn is_refused(calls: &Calls, store: impl IdempotencyStore) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("0.ndjson");
    let head = Head {
        v: VERSION,
        cell: "replay".to_owned(),
        seed: 0,
        quantum: 1,
        asks_again: false,
        caches: false,
    };
    let recorder = Recorder::create(&file, head).unwrap();
    let recorded: Arc<dyn IdempotencyStore> = Arc::new(Recorded::new(store, recorder));
    replay(&recorded, calls, "try").await.unwrap();
    let history = Calls::read(&file).unwrap().history().unwrap();
    let judgement = judge(&history, Bounds::default());
    assert!(judgement.undecided.is_empty(), "{judgement}");
    !judgement.refused.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_meets_the_mistake_again_and_a_right_store_has_none() {
    for (name, bug) in [
        ("NoFencing", Bug::NoFencing),
        (
            "SecondCompletionOverwrites",
            Bug::SecondCompletionOverwrites,
        ),
        ("TakeoverKeepsToken", Bug::TakeoverKeepsToken),
    ] {
        let calls = fixture(name);
        let mut met = false;
        for _ in 0..200 {
            met = met || is_refused(&calls, MutantStore::new(bug)).await;
        }
        assert!(met, "{name} was not met");
        for _ in 0..20 {
            assert!(!is_refused(&calls, MemoryStore::new()).await, "{name}");
        }
    }
}
