//! Counts what the memory store allocates and holds, and whether it grows.
//!
//! `memory [--quick] [--out FILE]`. The counting allocator is in this program only, so that it slows nothing that is
//! timed.

use std::alloc::System;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_benches::{Bound, Ratio, Row};
use idem_core::{
    BoxError, Claim, ClaimRequest, Fingerprint, IdempotencyStore, IdempotencyStoreExt, Key,
    MemoryStore, Response,
};
use serde::Serialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const DAY: Duration = Duration::from_secs(86_400);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Bytes of heap per operation. The smallest thing that could be left behind by each has more.
const GROWTH_TARGET: f64 = 0.1;

/// One line of the report: the number itself stands where others have a ratio.
#[derive(Serialize)]
struct Count {
    #[serde(flatten)]
    row: Row,
    unit: &'static str,
}

#[derive(Serialize)]
struct Counts {
    rows: Vec<Count>,
}

impl Count {
    fn new(path: &str, number: f64, unit: &'static str, baseline: &str) -> Self {
        let ratio = Ratio {
            median: number,
            spread: [number; 2],
        };
        Self {
            row: Row::new((path, "memory", 1), baseline, ratio),
            unit,
        }
    }

    fn at_most(mut self, target: f64) -> Self {
        let is_met = Bound::AtMost.is_met(self.row.ratio, target);
        self.row.target = Some(target);
        self.row.bound = Some(Bound::AtMost);
        self.row.met = Some(is_met);
        self
    }
}

/// How much is done.
#[derive(Clone, Copy)]
struct Plan {
    /// Keys that are live at once.
    live: u64,
    /// Operations after which growth is counted from, and up to which.
    churn: [u64; 2],
}

impl Plan {
    const FULL: Self = Self {
        live: 1_000_000,
        churn: [1_000_000, 10_000_000],
    };
    const QUICK: Self = Self {
        live: 100_000,
        churn: [100_000, 1_000_000],
    };
}

/// Keys of equal length, one after the other.
#[derive(Default)]
struct Requests {
    next: u64,
}

impl Requests {
    fn next(&mut self) -> Result<ClaimRequest, BoxError> {
        self.next += 1;
        let key = Key::new("bench", "payments.create", format!("{:032x}", self.next))?;
        Ok(ClaimRequest::new(key, fingerprint()))
    }
}

fn fingerprint() -> Fingerprint {
    Fingerprint::from_bytes(&[1; Fingerprint::BYTES])
        .unwrap_or_else(|_| Fingerprint::raw("request"))
}

/// A small response that owns its body, as one that came from the work does.
fn response() -> Response {
    Response::new(200, vec![b'x'; 64])
}

/// Bytes of heap that are in use, as asked for: what the allocator adds is not seen.
fn heap() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}

/// Allocations while it ran; growing in place counts as one.
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

/// Per operation, as the mean over some thousands, so that the growing of tables and queues has its share. The store is
/// any store, as applications have it: the box of each call's future is counted.
async fn count_allocations(rows: &mut Vec<Count>) -> Result<(), BoxError> {
    const OPERATIONS: usize = 20_000;
    let store: Arc<dyn IdempotencyStore> = black_box(Arc::new(MemoryStore::new()));
    let mut requests = Requests::default();
    let mut sums = [0.0; 4];
    for _ in 0..OPERATIONS {
        let id = "0123456789abcdef0123456789abcdef";
        let (made, request) = allocations(async {
            let key = Key::new("bench", "payments.create", id)?;
            Ok::<_, BoxError>(ClaimRequest::new(key, fingerprint()))
        })
        .await;
        drop(request?);
        let request = requests.next()?;
        let (claimed, claim) = allocations(acquired(&*store, &request)).await;
        let (claim, response) = (claim?, response());
        let (completed, done) = allocations(store.complete(&claim, &response, DAY)).await;
        done?;
        let (replayed, outcome) = allocations(store.claim(&request)).await;
        drop(outcome?);
        for (sum, number) in sums.iter_mut().zip([made, claimed, completed, replayed]) {
            *sum += number;
        }
    }
    let [made, claimed, completed, replayed] = sums.map(|sum| sum / OPERATIONS as f64);
    let unit = "allocations";
    rows.extend([
        Count::new("memory_request", made, unit, "a key and a request"),
        Count::new("memory_claim", claimed, unit, "a claim"),
        Count::new(
            "memory_claim_complete",
            claimed + completed,
            unit,
            "a claim and its result",
        ),
        Count::new("memory_replay", replayed, unit, "a replay"),
    ]);
    Ok(())
}

/// What a live key comes to, its text and its share of table and queues included.
async fn count_bytes(plan: Plan, rows: &mut Vec<Count>) -> Result<(), BoxError> {
    let (store, mut requests) = (MemoryStore::new(), Requests::default());
    let before = heap();
    for _ in 0..plan.live {
        let _ = acquired(&store, &requests.next()?).await?;
    }
    let in_flight = (heap() - before) / plan.live as f64;
    drop(store);

    let (store, mut requests) = (MemoryStore::new(), Requests::default());
    let before = heap();
    for _ in 0..plan.live {
        let claim = acquired(&store, &requests.next()?).await?;
        store.complete(&claim, &response(), DAY).await?;
    }
    let completed = (heap() - before) / plan.live as f64;
    drop(store);
    let unit = "bytes";
    rows.extend([
        Count::new("memory_bytes_in_flight", in_flight, unit, "a key in flight"),
        Count::new(
            "memory_bytes_completed",
            completed,
            unit,
            "a completed key, 64 bytes of body",
        ),
    ]);
    Ok(())
}

/// One key's life in three of four cases ends with its retention, otherwise with a release. Nobody purges.
async fn churn(store: &MemoryStore, requests: &mut Requests, lives: u64) -> Result<(), BoxError> {
    let response = response();
    for number in 0..lives {
        let claim = acquired(store, &requests.next()?).await?;
        if number % 4 == 0 {
            store.release(&claim).await?;
        } else {
            store.complete(&claim, &response, MILLISECOND).await?;
        }
    }
    Ok(())
}

/// How much more heap is in use after many operations than after some, with nothing live both times.
async fn count_growth(plan: Plan, rows: &mut Vec<Count>) -> Result<(), BoxError> {
    let (store, mut requests) = (MemoryStore::new(), Requests::default());
    let mut used = [0.0; 2];
    let mut done = 0;
    for (operations, used) in plan.churn.into_iter().zip(&mut used) {
        churn(&store, &mut requests, operations - done).await?;
        done = operations;
        tokio::time::sleep(10 * MILLISECOND).await;
        store.purge_all().await?;
        *used = heap();
    }
    let [few, many] = plan.churn;
    let growth = (used[1] - used[0]) / (many - few) as f64;
    let baseline = format!("operation from {few} to {many}");
    let row = Count::new("memory_growth", growth, "bytes", &baseline).at_most(GROWTH_TARGET);
    eprintln!(
        "heap after {few}: {:.0} bytes, after {many}: {:.0}",
        used[0], used[1]
    );
    rows.push(row);
    Ok(())
}

fn print(rows: &[Count]) {
    for Count { row, unit } in rows {
        let verdict = match row.met {
            None => "",
            Some(true) => ": met",
            Some(false) => ": MISSED",
        };
        println!(
            "{:24} {:10.3} {unit} for {}{verdict}",
            row.path, row.ratio, row.baseline
        );
    }
}

async fn run(plan: Plan, out: Option<String>) -> Result<(), BoxError> {
    let mut rows = Vec::new();
    count_allocations(&mut rows).await?;
    count_bytes(plan, &mut rows).await?;
    count_growth(plan, &mut rows).await?;
    print(&rows);
    if let Some(out) = out {
        std::fs::write(out, serde_json::to_vec_pretty(&Counts { rows })?)?;
    }
    Ok(())
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<(Plan, Option<String>), String> {
    let (mut plan, mut out) = (Plan::FULL, None);
    while let Some(option) = given.next() {
        match option.as_str() {
            "--quick" => plan = Plan::QUICK,
            "--out" => out = Some(given.next().ok_or("--out takes a value")?),
            _ => return Err(format!("{option} is not understood")),
        }
    }
    Ok((plan, out))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (plan, out) = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match run(plan, out).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
