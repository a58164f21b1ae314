//! The command line.

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};

/// Repeats the same operations with retries from several processes, kills some of them, and checks
/// that every effect happened exactly once.
///
/// Without options: generated payments, an embedded SQLite file in a temporary folder, four
/// processes. Exit status 0: every effect happened exactly once; 1: some did not, their keys are
/// listed; 2: the run could not be made.
#[derive(Debug, Clone, Parser)]
#[command(name = "storm", version, max_term_width = 100)]
pub(crate) struct Args {
    /// Where records and ledger are stored: `sqlite:PATH`, `postgres://USER@HOST:PORT/DATABASE`,
    /// `mysql://USER:PASSWORD@HOST:PORT/DATABASE`, `mssql://USER:PASSWORD@HOST:PORT/DATABASE`,
    /// `mongodb://HOST:PORT`, `redis://HOST:PORT` or `hybrid+redis://HOST:PORT+DATABASE`
    ///
    /// The run creates its own tables (PostgreSQL, SQL Server: a schema; MySQL, MariaDB and
    /// MongoDB: a database; Redis and Valkey: keys) and drops them again. Several URLs, separated
    /// by commas, are the nodes of one cluster: `mysql` of Galera, `redis` and `valkey` of Redis
    /// Cluster. A hybrid answers duplicates from Redis, and everything else from DATABASE, the URL
    /// of one of the first five. Default: a SQLite file in a temporary folder.
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,

    /// Keep the tables (and the temporary folder), and print where they are before the first
    /// delivery: time for a look with `idem` or its console
    #[arg(long, help_heading = "Store")]
    pub(crate) keep: bool,

    /// Number of requests to generate
    #[arg(long, value_name = "N", default_value_t = 5_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Storm")]
    pub(crate) requests: u32,

    /// How many times each request is delivered
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=50), help_heading = "Storm")]
    pub(crate) retries: u32,

    /// Number of worker processes
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Storm")]
    pub(crate) processes: u32,

    /// Number of deliveries that each process handles at once
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "Storm")]
    pub(crate) concurrency: u32,

    /// Probability that a worker is killed while it handles a delivery
    #[arg(long, value_name = "0..1", default_value_t = 0.02, value_parser = rate, help_heading = "Storm")]
    pub(crate) crash_rate: f64,

    /// Probability that a delivery carries another payload under the same key
    #[arg(long, value_name = "0..1", default_value_t = 0.02, value_parser = rate, help_heading = "Storm")]
    pub(crate) conflict_rate: f64,

    /// The lease of a claim, in milliseconds; after it, other workers take over a killed worker's
    /// requests
    #[arg(long, value_name = "MS", default_value_t = 400,
          value_parser = clap::value_parser!(u64).range(10..=600_000), help_heading = "Storm")]
    pub(crate) lease: u64,

    /// The same seed gives the same deliveries and the same crashes [default: random, printed]
    #[arg(long, value_name = "N", help_heading = "Storm")]
    pub(crate) seed: Option<u64>,

    /// Break the guarantee on purpose, to test the check
    #[arg(long, value_name = "HOW", help_heading = "Storm")]
    pub(crate) sabotage: Option<Sabotage>,

    /// End with one line of JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Ways to break the guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sabotage {
    /// Write the effect without a claim: every delivery has its effect
    NoClaim,
    /// Write the effect before the transaction that completes the claim: a crash in between doubles
    /// it
    TwoTransactions,
    /// Complete the claim without the effect: nothing ever happens
    NoEffect,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        _ => Err("a number from 0 to 1 is needed, such as 0.01".to_owned()),
    }
}
