//! Instructions that a client executes per operation, counted by callgrind: stable numbers, unlike
//! times.
//!
//! Needs `valgrind`, and `gungraun-runner` in the version of the crate `gungraun`, on the path or
//! named by `GUNGRAUN_RUNNER`. So it is built only with the feature `instructions`: `cargo bench -p
//! idem-benches --features instructions --bench instructions`. `--save-summary=json` after `--`
//! writes machine-readable numbers. Each count is of [`OPERATIONS`] operations. Valgrind knows
//! fewer instructions than processors do: hashing takes more of them here than on a processor with
//! SHA-256 instructions.

#![expect(
    missing_docs,
    reason = "the macros make public modules of the benchmarks"
)]

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use idem_benches::ids::{DAY, fingerprint, id, key, request};
use idem_core::backend::{StoredRecord, encode_response};
use idem_core::wrappers::Batched;
use idem_core::{
    BatchStore, Claim, ClaimOutcome, ClaimRequest, Fingerprint, IdempotencyStore, Key, MemoryStore,
    Response,
};
use tokio::runtime::{Builder, Runtime};

/// How many operations each benchmark does: with a thousand, one-time costs no longer show.
const OPERATIONS: u64 = 1000;

/// An order of about 200 bytes.
const BODY: &str = r#"{"amount": 1200, "currency": "EUR", "customer": {"id": "cus_4QFJOjw2pOmAGJ", "name": "Zoë"}, "items": [{"sku": "A-17", "count": 2, "price": 349.5}, {"sku": "B-4", "count": 1, "price": 501.0}]}"#;

/// The state that is made before counting begins. Each benchmark returns it, so that it is dropped
/// after counting has ended.
struct Prepared<S> {
    runtime: Runtime,
    store: S,
    requests: Vec<ClaimRequest>,
    claims: Vec<Claim>,
}

type Memory = Prepared<MemoryStore>;

fn response() -> Response {
    Response::new(200, "done").with_header("content-type", "text/plain")
}

fn prepared<S>(store: S) -> Prepared<S> {
    Prepared {
        runtime: Builder::new_current_thread().build().expect("a runtime"),
        store,
        requests: (0..OPERATIONS).map(|number| request(&id(number))).collect(),
        claims: Vec::with_capacity(OPERATIONS as usize),
    }
}

fn memory() -> Memory {
    prepared(MemoryStore::new())
}

fn batched() -> Prepared<Batched<MemoryStore>> {
    prepared(Batched::new(MemoryStore::new()))
}

fn claimed() -> Memory {
    claim_all(memory())
}

fn completed() -> Memory {
    complete_all(claimed())
}

fn claim_all<S: IdempotencyStore>(mut prepared: Prepared<S>) -> Prepared<S> {
    prepared.runtime.block_on(async {
        for request in &prepared.requests {
            let outcome = prepared.store.claim(request).await.expect("an answer");
            prepared.claims.extend(outcome.acquired());
        }
    });
    prepared
}

fn complete_all(prepared: Memory) -> Memory {
    let response = response();
    prepared.runtime.block_on(async {
        for claim in &prepared.claims {
            let done = prepared.store.complete(claim, &response, DAY).await;
            done.expect("a completion");
        }
    });
    prepared
}

#[library_benchmark(setup = memory)]
fn memory_claim(prepared: Memory) -> Memory {
    claim_all(prepared)
}

#[library_benchmark(setup = claimed)]
fn memory_complete(prepared: Memory) -> Memory {
    complete_all(prepared)
}

#[library_benchmark(setup = memory)]
fn memory_claim_complete(prepared: Memory) -> Memory {
    complete_all(claim_all(prepared))
}

#[library_benchmark(setup = completed)]
fn memory_replay(prepared: Memory) -> Memory {
    prepared.runtime.block_on(async {
        for request in &prepared.requests {
            let outcome = prepared.store.claim(request).await.expect("an answer");
            assert!(matches!(black_box(outcome), ClaimOutcome::Completed(_)));
        }
    });
    prepared
}

#[library_benchmark(setup = batched)]
fn batched_claim(prepared: Prepared<Batched<MemoryStore>>) -> Prepared<Batched<MemoryStore>> {
    claim_all(prepared)
}

// The cost of a batch of this size for the store itself, for comparison.
#[library_benchmark(setup = memory)]
fn memory_claim_many(prepared: Memory) -> Memory {
    let claim = prepared.store.claim_many(&prepared.requests);
    let outcomes = prepared.runtime.block_on(claim);
    assert!(black_box(outcomes).iter().all(Result::is_ok));
    prepared
}

fn ids() -> Vec<String> {
    (0..OPERATIONS).map(id).collect()
}

#[library_benchmark(setup = ids)]
fn key_new(ids: Vec<String>) -> Vec<Key> {
    ids.iter().map(|id| key(id)).collect()
}

fn keys() -> Vec<Key> {
    ids().iter().map(|id| key(id)).collect()
}

#[library_benchmark(setup = keys)]
fn request_new(keys: Vec<Key>) -> Vec<ClaimRequest> {
    let fingerprint = Fingerprint::from_bytes(&[1; Fingerprint::BYTES]).expect("a fingerprint");
    let request = |key| ClaimRequest::new(key, fingerprint);
    keys.into_iter().map(request).collect()
}

#[library_benchmark]
fn fingerprint_json() {
    for _ in 0..OPERATIONS {
        let fingerprint = Fingerprint::json(black_box(BODY));
        black_box(fingerprint.expect("a fingerprint"));
    }
}

#[library_benchmark]
fn fingerprint_raw() {
    for _ in 0..OPERATIONS {
        black_box(Fingerprint::raw(black_box(BODY)));
    }
}

fn record() -> (ClaimRequest, StoredRecord<'static>) {
    let stored = StoredRecord {
        state: StoredRecord::COMPLETED,
        token: 7,
        attempts: 1,
        fingerprint: Box::leak(Box::new(fingerprint().to_bytes())),
        created_at: 1,
        expires_at: 90,
        lease_ends_at: 20,
        fails_when_stale: false,
        sealed_at: Some(10),
        metadata: None,
        result: encode_response(&response()).ok(),
        now: 15,
    };
    (request("one"), stored)
}

// From the columns of a completed record to the answer for a duplicate.
#[library_benchmark(setup = record)]
fn record_decode((request, stored): (ClaimRequest, StoredRecord<'static>)) -> ClaimRequest {
    for _ in 0..OPERATIONS {
        let outcome = black_box(&stored).clone().loses(&request);
        let _ = black_box(outcome.expect("a record"));
    }
    request
}

library_benchmark_group!(
    name = store,
    benchmarks = [
        memory_claim,
        memory_complete,
        memory_claim_complete,
        memory_claim_many,
        memory_replay,
        batched_claim
    ]
);

library_benchmark_group!(
    name = values,
    benchmarks = [
        key_new,
        request_new,
        fingerprint_raw,
        fingerprint_json,
        record_decode
    ]
);

main!(library_benchmark_groups = [store, values]);
