//! `prove trace`: traffic on a server of its own, whose log is validated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use idem_core::{BoxError, IdempotencyStore};
use serde::{Deserialize, Serialize};

use super::{Log, NAMES, Trace, Verdict, play, validate};
use crate::campaign;
use crate::history::{Calls, Head, Recorded, Recorder, VERSION};
use crate::report;
use crate::traffic::{self, Plan, drive};

/// Which server, and how much.
#[derive(Debug, Clone, clap::Args)]
pub struct Orders {
    /// `postgres`, `redis`, `valkey`, `mariadb`, `mysql`, `sqlite`, or the file of a trace
    store: String,
    /// The steps of each caller; 0 plays only the scripts, one for each kind of transition
    #[arg(long, default_value_t = 2_000)]
    steps: u64,
    /// The callers
    #[arg(long, default_value_t = 8)]
    callers: u64,
    /// The seed of the traffic. Default: a random one, which is printed
    #[arg(long)]
    seed: Option<u64>,
    /// Writes the trace of each script into this folder
    #[arg(long, value_name = "DIR")]
    scripts: Option<PathBuf>,
    /// Writes the whole trace into this file
    #[arg(long, value_name = "FILE")]
    whole: Option<PathBuf>,
    /// The file to which the numbers are added
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

/// What the trace of a store held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// Name and version of the product.
    pub product: String,
    /// The commit.
    pub commit: String,
    /// The seed of the traffic.
    pub seed: u64,
    /// The recorded calls.
    pub calls: u64,
    /// The changes in the server's log.
    pub changes: u64,
    /// The calls and changes that the specification refuses.
    pub refused: u64,
    /// How often each kind of transition was seen.
    pub seen: BTreeMap<String, u64>,
}

impl Orders {
    /// Runs the usual traffic on this store.
    #[must_use]
    pub fn of(store: &str) -> Self {
        Self {
            store: store.to_owned(),
            steps: 2_000,
            callers: 8,
            seed: None,
            scripts: None,
            whole: None,
            results: None,
        }
    }
}

/// Runs traffic, reads the server's log and validates it. Returns whether it is accepted.
///
/// # Errors
///
/// The server's, a log that cannot be read, and files that cannot be written.
pub fn run(orders: &Orders) -> Result<bool, BoxError> {
    if Path::new(&orders.store).is_file() {
        let trace = Trace::parse(&std::fs::read_to_string(&orders.store)?)?;
        let verdict = validate(&trace)?;
        print(&trace, &verdict);
        return Ok(verdict.is_accepted());
    }
    let log = Log::start(&orders.store)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let traced = runtime.block_on(record(&log, orders))?;
    if let Some(file) = &orders.whole {
        std::fs::write(file, traced.to_ndjson()?)?;
    }
    let verdict = validate(&traced)?;
    print(&traced, &verdict);
    if let Some(file) = &orders.results {
        note(file, &orders.store, &traced, &verdict)?;
    }
    Ok(verdict.is_accepted())
}

/// Adds the numbers of a trace to the file, in place of those of an earlier one.
fn note(file: &Path, store: &str, trace: &Trace, verdict: &Verdict) -> Result<(), BoxError> {
    let seen = verdict.coverage.counts().iter();
    let traced = Traced {
        product: trace.calls.head.cell.clone(),
        commit: campaign::commit(&std::env::current_dir()?)?,
        seed: trace.calls.head.seed,
        calls: trace.calls.seen.len() as u64,
        changes: trace.changes.len() as u64,
        refused: verdict.refused.len() as u64,
        seen: seen
            .map(|(kind, times)| ((*kind).to_owned(), *times))
            .collect(),
    };
    let mut results: BTreeMap<String, Traced> = report::read(file)?;
    results.insert(store.to_owned(), traced);
    Ok(std::fs::write(
        file,
        serde_json::to_string_pretty(&results)? + "\n",
    )?)
}

fn print(trace: &Trace, verdict: &Verdict) {
    let result = match verdict.is_accepted() {
        true => "accepted",
        false => "refused",
    };
    println!(
        "{}: {result}: {} calls, {} changes, {} keys, {} refused",
        trace.calls.head.cell,
        trace.calls.seen.len(),
        trace.changes.len(),
        trace.keys().len(),
        verdict.refused.len()
    );
    println!("{verdict}");
    for missing in verdict.coverage.missing() {
        println!("not seen: {missing}");
    }
}

async fn record(log: &Log, orders: &Orders) -> Result<Trace, BoxError> {
    let store = log.begin().await?;
    let folder = tempfile::Builder::new().prefix("idem-trace-").tempdir()?;
    let head = Head {
        v: VERSION,
        cell: log.product().await?,
        seed: orders.seed.unwrap_or_else(traffic::seed),
        quantum: log.quantum(),
        // One caller after the other has nobody to ask about.
        asks_again: log.asks_again() && orders.steps > 0,
        caches: false,
    };
    let plan = Plan {
        seed: head.seed,
        callers: orders.callers,
        steps: orders.steps,
        lease: Duration::from_millis(80),
        ..Plan::default()
    };
    let recorder = Recorder::create(&folder.path().join("0.ndjson"), head)?;
    let recorded: Arc<dyn IdempotencyStore> = Arc::new(Recorded::new(store, recorder));
    let mut scripts = Vec::new();
    for name in NAMES {
        scripts.push((name, play(&*recorded, name).await?));
    }
    let late = drive(Arc::clone(&recorded), plan).await;
    if late > 0 {
        return Err(format!("{late} calls had no answer in time").into());
    }
    let trace = Trace::new(Calls::read(folder.path())?, log.changes().await?);
    if let Some(folder) = &orders.scripts {
        std::fs::create_dir_all(folder)?;
        for (name, key) in scripts {
            let text = trace.of_key(&key.hashed()[..16]).to_ndjson()?;
            let file = format!("{} {name}.ndjson", orders.store).replace(' ', "-");
            std::fs::write(folder.join(file), text)?;
        }
    }
    Ok(trace)
}
