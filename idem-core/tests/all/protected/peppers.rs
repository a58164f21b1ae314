//! Fingerprints under a pepper.

use idem_core::wrappers::Protected;
use idem_core::wrappers::protected::Peppers;
use idem_core::{
    BatchStore, ClaimOutcome, ClaimRequest, Fingerprint, IdempotencyStore, MemoryStore,
};

use super::support::{HOUR, claimed, hold, key, request, response, ring};

const ONE: [u8; 32] = [1; 32];
const TWO: [u8; 32] = [2; 32];

fn under(store: &MemoryStore, peppers: Peppers) -> Protected<MemoryStore> {
    Protected::new(store.clone()).with_peppers(peppers)
}

fn peppers(current: [u8; 32]) -> Peppers {
    Peppers::new(current).unwrap()
}

#[tokio::test]
async fn the_store_gets_no_fingerprint_that_can_be_guessed() {
    let bare = MemoryStore::new();
    let store = under(&bare, peppers(ONE));
    let (one, two) = (request("a"), request("b"));
    hold(&store, &one).await;
    hold(&store, &two).await;
    let stored = async |id| {
        let record = bare.get(&key(id)).await.unwrap().unwrap();
        record.info().fingerprint
    };
    assert_ne!(stored("a").await, *one.fingerprint());
    assert_ne!(
        stored("a").await,
        stored("b").await,
        "equal requests look equal"
    );
    let again = store.claim(&request("a")).await.unwrap();
    let ClaimOutcome::InFlight(record) = again else {
        panic!("{again:?}");
    };
    assert_eq!(record.info.fingerprint, *one.fingerprint());
    let other = ClaimRequest::new(key("a"), Fingerprint::raw("another"));
    assert_eq!(store.claim(&other).await.unwrap().name(), "conflict");
}

#[tokio::test]
async fn with_keys_every_answer_shows_the_fingerprint_that_was_given() {
    let bare = MemoryStore::new();
    let store = under(&bare, peppers(ONE)).with_keys(ring(&["k1"]));
    let one = request("a").with_metadata(Default::default());
    hold(&store, &one).await;
    let record = store.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(record.info().fingerprint, *one.fingerprint());
    assert!(record.info().metadata.is_empty());
    let other = ClaimRequest::new(key("a"), Fingerprint::raw("another"));
    let outcome = store.claim(&other).await.unwrap();
    let ClaimOutcome::Conflict(conflict) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(conflict.info.fingerprint, *one.fingerprint());
}

#[tokio::test]
async fn records_are_found_under_former_peppers_and_none() {
    let bare = MemoryStore::new();
    let store = under(&bare, peppers(ONE));
    let (lost, done) = (request("lost"), request("done"));
    // The answer of this claim is lost.
    hold(&store, &lost).await;
    let claim = claimed(&store, &done).await;
    store.complete(&claim, &response(), HOUR).await.unwrap();
    let plain = request("plain");
    let claim = claimed(&bare, &plain).await;
    bare.complete(&claim, &response(), HOUR).await.unwrap();

    let now = peppers(TWO).with_former(ONE).unwrap().with_plain();
    let store = under(&bare, now);
    assert!(matches!(
        store.claim(&lost).await,
        Ok(ClaimOutcome::Acquired(_))
    ));
    let others = [request("lost"), request("done"), request("plain")];
    let answers = store.claim_many(&others).await;
    let names: Vec<_> = answers.iter().flatten().map(ClaimOutcome::name).collect();
    assert_eq!(names, ["in_flight", "completed", "completed"]);
    for id in ["lost", "done", "plain"] {
        let other = ClaimRequest::new(key(id), Fingerprint::raw("another"));
        assert_eq!(store.claim(&other).await.unwrap().name(), "conflict");
    }
    // Without the former pepper it is another request, and no work runs.
    let store = under(&bare, peppers(TWO));
    assert_eq!(
        store.claim(&request("done")).await.unwrap().name(),
        "conflict"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_claims_wins_while_the_pepper_changes() {
    for round in 0..50 {
        let bare = MemoryStore::new();
        let id = round.to_string();
        let claims = (0..8).map(|number| {
            let (now, other) = if number % 2 == 0 {
                (ONE, TWO)
            } else {
                (TWO, ONE)
            };
            let store = under(&bare, peppers(now).with_former(other).unwrap());
            let request = request(&id);
            tokio::spawn(async move { store.claim(&request).await.unwrap().name() })
        });
        let mut names = Vec::new();
        for claim in claims.collect::<Vec<_>>() {
            names.push(claim.await.unwrap());
        }
        let count = |name| names.iter().filter(|each| **each == name).count();
        assert_eq!((count("acquired"), count("in_flight")), (1, 7), "{names:?}");
    }
}

#[test]
fn a_pepper_is_long_and_hidden() {
    assert!(Peppers::new([0; 15]).is_err());
    assert!(peppers(ONE).with_former("short").is_err());
    assert!(!format!("{:?}", peppers([171; 32])).contains("171"));
}
