//! The suite, and cases of this crate's own, against SQLite.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::Target;
use support::SqliteHarness;

fn main() -> ExitCode {
    if let Some(migrated) = cases::migrate_as_child() {
        return match migrated {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}: {:?}", error.source());
                ExitCode::FAILURE
            }
        };
    }
    idem_conformance::main(vec![
        Target::new("sqlite", || async { Ok(SqliteHarness) }).with_cases(cases::ALL),
    ])
}
