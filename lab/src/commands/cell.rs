//! `prove cell`, `prove cells` and `prove doctor`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use idem_core::BoxError;

use crate::cells::{self, CellSpec, Expects, Outcome, Proof, Ran, Segment};
use crate::history::Calls;
use crate::judge::judge;
use crate::nemesis::doctor;
use crate::search::Bounds;
use crate::traffic;

/// The arguments of `prove cell`.
#[derive(Debug, Args)]
pub struct CellArguments {
    /// The name of the cell: `prove cells` lists them
    name: String,
    /// The seed. Default: a random one, which is printed
    #[arg(long)]
    seed: Option<u64>,
    /// How long faults are injected, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many faults have to take place, however long they take
    #[arg(long, default_value_t = 1)]
    faults: u64,
    /// The processes that call the store
    #[arg(long, default_value_t = 3)]
    workers: u64,
    /// The callers in each process
    #[arg(long, default_value_t = 3)]
    callers: u64,
    /// The callers in each process on fresh keys, which make most of the traffic at scale
    #[arg(long, default_value_t = 0)]
    fresh: u64,
    /// The folder of the histories, which keeps them. Default: only a history that is not accepted
    /// is kept
    #[arg(long, value_name = "DIR")]
    histories: Option<PathBuf>,
}

impl CellArguments {
    /// Runs a cell briefly.
    #[must_use]
    pub fn of(name: String, seed: u64) -> Self {
        Self {
            name,
            seed: Some(seed),
            seconds: 5,
            faults: 1,
            workers: 3,
            callers: 3,
            fresh: 4,
            histories: None,
        }
    }
}

/// Runs a cell and judges it. Returns 0 for accepted, 1 for refused, 2 for not proven.
///
/// # Errors
///
/// Those of the harness, which prove nothing.
pub async fn run(arguments: &CellArguments) -> Result<ExitCode, BoxError> {
    let cells = cells::all();
    let cell = cells.iter().find(|cell| cell.name == arguments.name);
    let cell = cell.ok_or_else(|| format!("no cell `{}`: see `prove cells`", arguments.name))?;
    let seed = arguments.seed.unwrap_or_else(traffic::seed);
    let temporary = tempfile::Builder::new().prefix("idem-prove-").tempdir()?;
    let folder = match &arguments.histories {
        Some(folder) => folder
            .join(cell.name.replace('/', "-"))
            .join(format!("{seed}")),
        None => temporary.path().to_owned(),
    };
    let segment = Segment {
        seed,
        time: Duration::from_secs(arguments.seconds),
        faults: arguments.faults,
        workers: arguments.workers,
        callers: arguments.callers,
        fresh: arguments.fresh,
    };
    let proof = match cells::run(cell, segment, &folder).await {
        Ok(ran) => judged(cell, &ran, seed, &folder),
        Err(error) => Err(error),
    };
    let proof = proof.unwrap_or_else(|error| Proof::of_error(&*error));
    println!("{}: {proof}", cell.name);
    if proof != Proof::Accepted {
        // The folder is evidence now.
        std::mem::forget(temporary);
        println!("kept: {}", folder.display());
    }
    Ok(ExitCode::from(proof.status()))
}

/// Prints what was done, and judges it.
fn judged(cell: &CellSpec, ran: &Ran, seed: u64, folder: &Path) -> Result<Proof, BoxError> {
    println!(
        "{}: {} {}, seed {seed}",
        cell.name, ran.product, ran.settings
    );
    for fault in &ran.faults {
        let (state, why) = match &fault.outcome {
            Outcome::Installed { proof } => ("installed", proof),
            Outcome::Skipped { why } => ("skipped", why),
            Outcome::Indeterminate { why } => ("indeterminate", why),
        };
        let millis = (fault.c1 - fault.c0) / 1_000;
        println!(
            "  {} on {}, {millis} ms: {state}: {why}",
            fault.what, fault.on
        );
    }
    if let Some(why) = &ran.gone {
        println!("  everything is lost: {why}");
    }
    let judgement = judge(&Calls::read(folder)?.history()?, Bounds::default());
    print!("  {judgement}");
    Ok(cells::verdict(cell, ran, &judgement))
}

/// Lists the cells.
///
/// # Errors
///
/// None.
pub fn list() -> Result<ExitCode, BoxError> {
    for cell in cells::all() {
        let expects = match cell.expects {
            Expects::Hold => "hold",
            Expects::TakeBack => "take back",
            Expects::Loss => "loss",
        };
        let CellSpec {
            name,
            product,
            fault,
            guarantee,
            ..
        } = cell;
        println!("{name:32} {expects:9}  {product}, {fault}\n    {guarantee}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which faults this machine can inject, and which servers it has.
///
/// # Errors
///
/// None.
pub fn doctor() -> Result<ExitCode, BoxError> {
    for (need, missing) in doctor::report() {
        match missing {
            None => println!("{need}: ok"),
            Some(why) => println!("{need}: not run: {}", why.replace('\n', " ")),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a cell within its sandbox.
///
/// # Errors
///
/// Those of the harness.
pub async fn inside(orders: &str) -> Result<ExitCode, BoxError> {
    cells::inside(orders).await?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a process that calls the store.
///
/// # Errors
///
/// Those of the files.
pub async fn work(orders: &str) -> Result<ExitCode, BoxError> {
    let store = std::env::var("IDEM_PROVE_STORE")?;
    cells::work(&store, serde_json::from_str(orders)?).await?;
    Ok(ExitCode::SUCCESS)
}
