//! The suite against SQLite.

mod support;

use std::process::ExitCode;

use idem_conformance::Target;
use support::SqliteHarness;

fn main() -> ExitCode {
    idem_conformance::main(vec![Target::new("sqlite", || async { Ok(SqliteHarness) })])
}
