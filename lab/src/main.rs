//! `prove`: injects faults into stores, and judges what their callers saw.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use idem_core::BoxError;
use idem_prove::commands::{cell, ci, judge, model, replay};
use idem_prove::{campaign, fuzz, regress, report};

/// Injects faults into stores, and judges what their callers saw against the specification of one
/// key.
#[derive(Debug, Parser)]
#[command(name = "prove", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Says which faults this machine can inject.
    Doctor,
    /// Lists the cells.
    Cells,
    /// Runs one cell: a store under a fault.
    Cell(cell::CellArguments),
    /// Runs what every change has to pass, in a minute: the kept histories, a model, and a cell.
    Ci(ci::CiArguments),
    /// Runs every cell in a drawn order, and judges each: 8 hours.
    Campaign(campaign::CampaignArguments),
    /// Explores the models, and compares what comes of each with what has to.
    Model(model::Model),
    /// Brings faults back by patches, and sees that they are caught.
    Regress(regress::RegressArguments),
    /// Lets coverage guide the fuzz targets of `lab/fuzz`.
    Fuzz(fuzz::Orders),
    /// Writes `docs/proof.md`.
    Report(report::ReportArguments),
    /// Judges a recorded history, without a server.
    Judge {
        /// A folder of `.ndjson` files of one run, or one file
        path: PathBuf,
    },
    /// Prints the fewest calls of a refused history that are still refused.
    Shrink {
        /// A folder of `.ndjson` files of one run, or one file
        path: PathBuf,
    },
    /// Repeats the calls of a history on a store many times, and judges each.
    Replay(replay::ReplayArguments),
    /// A cell in its sandbox.
    #[command(hide = true)]
    CellInside { orders: String },
    /// A process of a cell.
    #[command(hide = true)]
    CellWork { orders: String },
}

fn main() -> ExitCode {
    match start() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn start() -> Result<ExitCode, BoxError> {
    let runtime = tokio::runtime::Runtime::new()?;
    match Arguments::parse().command {
        Command::Doctor => cell::doctor(),
        Command::Cells => cell::list(),
        Command::Cell(cell) => runtime.block_on(cell::run(&cell)),
        Command::Ci(ci) => ci::run(&ci, &runtime),
        Command::Campaign(campaign) => runtime.block_on(campaign::run(&campaign)),
        Command::Model(model) => model::explore(&model),
        Command::Regress(regress) => regress::run(&regress),
        Command::Fuzz(orders) => fuzz::run(&orders).map(status),
        Command::Report(report) => report::run(&report),
        Command::Judge { path } => judge::read_and_judge(&path),
        Command::Shrink { path } => judge::print_shrunk(&path),
        Command::Replay(replay) => runtime.block_on(replay::run(&replay)),
        Command::CellInside { orders } => runtime.block_on(cell::inside(&orders)),
        Command::CellWork { orders } => runtime.block_on(cell::work(&orders)),
    }
}

fn status(succeeds: bool) -> ExitCode {
    match succeeds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
