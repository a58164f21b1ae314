//! Counts the allocations and the memory of the memory store, and checks that it does not grow.
//!
//! The counting allocator is in this program only, so that it slows no timed program.

use std::alloc::System;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use idem_benches::ids::{DAY, id, request};
use idem_benches::{Report, Row};
use idem_core::{
    BoxError, Claim, ClaimRequest, IdempotencyStore, IdempotencyStoreExt, MemoryStore, Response,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Counts the allocations and the memory of the memory store.
#[derive(Debug, Parser)]
struct Arguments {
    /// Measures a tenth of the keys.
    #[arg(long)]
    quick: bool,
    /// Writes the rows to this file, as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Returns claims of keys of equal length, in sequence.
fn requests() -> impl Iterator<Item = ClaimRequest> {
    (1..).map(|number| request(&id(number)))
}

/// Returns a small response that owns its body, like one from the work.
fn response() -> Response {
    Response::new(200, vec![b'x'; 64])
}

/// Returns the bytes of heap in use, as requested, without the allocator's overhead.
fn heap() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}

/// Counts the allocations of the work; growing in place counts as one.
async fn allocations<T>(work: impl Future<Output = T>) -> (f64, T) {
    let region = Region::new(ALLOCATOR);
    let done = work.await;
    let change = region.change();
    ((change.allocations + change.reallocations) as f64, done)
}

async fn acquired(store: &dyn IdempotencyStore, request: &ClaimRequest) -> Result<Claim, BoxError> {
    let claim = store.claim(request).await?.acquired();
    claim.ok_or_else(|| "the key was not free".into())
}

/// Counts per operation, as the mean over some thousands, so that the growth of tables and queues
/// is included. The store is behind a trait object, as in applications: the box of each call's
/// future counts.
async fn count_allocations(rows: &mut Vec<Row>) -> Result<(), BoxError> {
    const OPERATIONS: usize = 20_000;
    let store: Arc<dyn IdempotencyStore> = black_box(Arc::new(MemoryStore::new()));
    let mut sums = [0.0; 4];
    for wanted in requests().take(OPERATIONS) {
        let id = "0123456789abcdef0123456789abcdef";
        let (made, made_request) = allocations(async { request(id) }).await;
        drop(made_request);
        let (claimed, claim) = allocations(acquired(&*store, &wanted)).await;
        let (claim, response) = (claim?, response());
        let (completed, done) = allocations(store.complete(&claim, &response, DAY)).await;
        done?;
        let (replayed, outcome) = allocations(store.claim(&wanted)).await;
        drop(outcome?);
        let counts = [made, claimed, claimed + completed, replayed];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let kinds = [
        ("memory_request", "a key and a request"),
        ("memory_claim", "a claim"),
        ("memory_claim_complete", "a claim and its result"),
        ("memory_replay", "a replay"),
    ];
    for ((path, of), sum) in kinds.into_iter().zip(sums) {
        rows.push(Row::count(path, sum / OPERATIONS as f64, "allocations", of));
    }
    Ok(())
}

/// Counts the bytes of a live key, with its text and its share of table and queues.
async fn count_bytes(live: usize, rows: &mut Vec<Row>) -> Result<(), BoxError> {
    let completed = "a completed key, 64 bytes of body";
    let kinds = [
        ("memory_bytes_in_flight", "a key in flight", false),
        ("memory_bytes_completed", completed, true),
    ];
    for (path, of, is_completed) in kinds {
        let store = MemoryStore::new();
        let before = heap();
        for request in requests().take(live) {
            let claim = acquired(&store, &request).await?;
            if is_completed {
                store.complete(&claim, &response(), DAY).await?;
            }
        }
        let bytes = (heap() - before) / live as f64;
        rows.push(Row::count(path, bytes, "bytes", of));
    }
    Ok(())
}

/// Counts the additional heap after ten times as many operations, with no live key in both cases:
/// three of four keys end with their retention, the others with a release. Nothing calls
/// `delete_expired`.
async fn count_growth(few: usize, rows: &mut Vec<Row>) -> Result<(), BoxError> {
    let (store, mut requests, response) = (MemoryStore::new(), requests(), response());
    let many = 10 * few;
    let mut used = [0.0; 2];
    for (operations, used) in [few, many - few].into_iter().zip(&mut used) {
        for (number, request) in requests.by_ref().take(operations).enumerate() {
            let claim = acquired(&store, &request).await?;
            if number % 4 == 0 {
                store.release(&claim).await?;
            } else {
                store.complete(&claim, &response, MILLISECOND).await?;
            }
        }
        tokio::time::sleep(10 * MILLISECOND).await;
        store.purge_all().await?;
        *used = heap();
    }
    let [before, after] = used;
    eprintln!("heap after {few}: {before:.0} bytes, after {many}: {after:.0}");
    let growth = (after - before) / (many - few) as f64;
    let baseline = format!("operation from {few} to {many}");
    rows.push(Row::count("memory_growth", growth, "bytes", &baseline));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let arguments = Arguments::parse();
    let keys = if arguments.quick { 100_000 } else { 1_000_000 };
    let mut rows = Vec::new();
    count_allocations(&mut rows).await?;
    count_bytes(keys, &mut rows).await?;
    count_growth(keys, &mut rows).await?;
    rows.iter().for_each(|row| println!("{row}"));
    if let Some(out) = arguments.out {
        std::fs::write(out, serde_json::to_vec_pretty(&Report { rows })?)?;
    }
    Ok(())
}
