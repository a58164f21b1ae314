//! The memory store under a model checker that tries many interleavings of its locks.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p idem-core --test shuttle`; without that cfg
//! the file is empty.
#![cfg(shuttle)]

use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Fingerprint, IdempotencyStore, Key, MemoryStore, Response,
};
use shuttle::{future::block_on, thread};

const ITERATIONS: usize = 2_000;
const HOUR: Duration = Duration::from_secs(3600);

fn request(key: &Key) -> ClaimRequest {
    ClaimRequest::new(key.clone(), Fingerprint::raw("request")).with_lease(HOUR)
}

fn key(id: &str) -> Key {
    Key::new("scope", "operation", id).unwrap()
}

/// Runs `work` in this many threads and returns the answer of each.
fn race<T: Send + 'static>(
    threads: usize,
    store: &MemoryStore,
    work: impl Fn(usize, &MemoryStore) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let spawn = |number| {
        let (store, work) = (store.clone(), work.clone());
        thread::spawn(move || work(number, &store))
    };
    let handles: Vec<_> = (0..threads).map(spawn).collect();
    handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .collect()
}

fn winners(outcomes: Vec<ClaimOutcome>) -> Vec<Claim> {
    outcomes
        .into_iter()
        .filter_map(ClaimOutcome::acquired)
        .collect()
}

#[test]
fn one_of_racing_claims_is_acquired() {
    shuttle::check_random(
        || {
            let store = MemoryStore::new();
            let outcomes = race(3, &store, |_, store| {
                block_on(store.claim(&request(&key("a")))).unwrap()
            });
            assert_eq!(winners(outcomes).len(), 1);
        },
        ITERATIONS,
    );
}

#[test]
fn a_response_sealed_beside_a_release_is_either_there_or_refused() {
    shuttle::check_random(
        || {
            let store = MemoryStore::new();
            let claim = block_on(store.claim(&request(&key("a"))))
                .unwrap()
                .acquired()
                .unwrap();
            let done = race(2, &store, move |number, store| {
                if number == 0 {
                    block_on(store.complete(&claim, &Response::new(200, "done"), HOUR)).is_ok()
                } else {
                    block_on(store.release(&claim)).is_ok()
                }
            });
            assert_ne!(done[0], done[1], "exactly one of the two takes effect");
            let there = block_on(store.get(&key("a"))).unwrap().is_some();
            assert_eq!(there, done[0]);
        },
        ITERATIONS,
    );
}

#[test]
fn tokens_grow_across_release_for_every_claimer() {
    shuttle::check_random(
        || {
            let store = MemoryStore::new();
            let tokens = race(3, &store, |_, store| {
                let mut tokens = Vec::new();
                for _ in 0..2 {
                    if let ClaimOutcome::Acquired(claim) =
                        block_on(store.claim(&request(&key("a")))).unwrap()
                    {
                        tokens.push(claim.token());
                        block_on(store.release(&claim)).unwrap();
                    }
                }
                assert!(tokens.is_sorted_by(|one, two| one < two));
                tokens
            });
            let mut all = tokens.concat();
            let given = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), given, "no token twice");
        },
        ITERATIONS,
    );
}

#[test]
fn purge_beside_claims_deletes_no_live_record() {
    shuttle::check_random(
        || {
            let store = MemoryStore::new();
            let claim = block_on(store.claim(&request(&key("a"))))
                .unwrap()
                .acquired()
                .unwrap();
            block_on(store.release(&claim)).unwrap();
            let acquired = race(3, &store, |number, store| {
                if number == 0 {
                    block_on(store.delete_expired(10)).unwrap();
                    return false;
                }
                let outcome = block_on(store.claim(&request(&key("a")))).unwrap();
                matches!(outcome, ClaimOutcome::Acquired(_))
            });
            assert_eq!(acquired.iter().filter(|acquired| **acquired).count(), 1);
            assert!(block_on(store.get(&key("a"))).unwrap().is_some());
        },
        ITERATIONS,
    );
}
