//! A retry storm: at-least-once delivery, killed workers, and effects that happen exactly once.
//!
//! The parent process is the sender. It draws a plan (`plan.rs`) from the seed: every request
//! several times, in random order, some deliveries with another payload under the same key, some
//! with a crash. It starts the worker processes (`lane.rs`), and sends each delivery again until it
//! is acknowledged. A worker (`worker.rs`) claims the request's key, does the work, and commits the
//! effect (a row of an append-only ledger without any unique constraint) together with the answer.
//! At the end the parent audits (`audit.rs`) the ledger against every answer that it received.
//!
//! A worker takes the claim **outside** of the transaction, with a short lease; the effect's row
//! and `complete_in` commit in **one** transaction. So every worker sees at once that the request
//! is in progress, and no worker waits for a database lock during the work. (`claim_in` would hold
//! SQLite's only write lock for all of it.) The lease is short because a killed worker leaves its
//! claim behind. `complete_in` returns an error to a worker that has lost its claim, and its
//! rollback removes the effect's row: a lease that is too short costs time, never a second effect.
//!
//! Redis has no such transaction. There the effect is a call to a service that has one effect for
//! one key (`backend/redis.rs`), and the derived key makes it exact.
//!
//! The seed decides which deliveries crash and at which point. A worker that reaches the point
//! reports it and waits, perhaps in the middle of its transaction; the parent kills it (SIGKILL),
//! starts a new process and sends it everything that was not acknowledged. Each planned crash
//! happens once, so every run ends.

mod args;
mod audit;
pub(crate) mod backend;
mod conduct;
mod lane;
mod plan;
mod protocol;
pub(crate) mod seat;
mod stop;
pub(crate) mod worker;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

pub use backend::foreign::Open;

/// Runs the command for a store of somebody else: without `--store`, or with `--store NAME:FOLDER`.
/// The store has to be open in several processes at once, whose `main` begins with this.
#[must_use]
pub fn main_with(name: &'static str, open: Open) -> ExitCode {
    backend::foreign::register(name, open);
    main()
}

/// Runs the command: `storm`, or one of its workers.
#[must_use]
pub fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == worker::ARGUMENT)
    {
        return worker::main();
    }
    match conduct::conduct(&args::Args::parse()) {
        Ok(code) => code,
        Err(stop) => {
            // If even this cannot be written, the exit status still reports the error.
            let _ = writeln!(std::io::stderr(), "storm: {stop}");
            stop.code()
        }
    }
}
