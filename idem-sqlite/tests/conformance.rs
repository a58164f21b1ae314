//! Runs the suite, and this crate's own cases, against SQLite; the suite on files and connections
//! with hostile settings, and behind `Batched`.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Target};
use idem_stores::Sqlite;
use support::{Hostile, target};

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
        Target::new("sqlite", async || Ok(target("sqlite", Sqlite))).with_cases(cases::ALL),
        Target::new("sqlite-hostile", async || {
            Ok(target("sqlite-hostile", Hostile))
        }),
        Target::new("sqlite-one-lane", async || {
            Ok(Batched::new(target("sqlite", Sqlite)))
        }),
    ])
}
