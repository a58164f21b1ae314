//! Runs the suite, and this crate's own cases, against a T-SQL server: with its own claim method,
//! where that is MERGE, with the other; and the suite with hostile settings of the sessions.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::Target;
use support::MssqlHarness;

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
        Target::new("mssql", || async { MssqlHarness::made_for() }).with_cases(cases::ALL),
        Target::new("mssql-insert", MssqlHarness::forced).with_cases(cases::ALL),
        Target::new("mssql-hostile", || async { MssqlHarness::hostile() }),
    ])
}
