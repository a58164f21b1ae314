//! Runs the suite, and this crate's own cases, against a T-SQL server: with its own claim method,
//! where that is MERGE, with the other; and the suite with hostile settings of the sessions.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::Target;
use support::{MssqlHarness, target};

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
    let own = async || target(MssqlHarness::made_for()?).await;
    let forced = async || target(MssqlHarness::forced().await?).await;
    let hostile = async || target(MssqlHarness::hostile()?).await;
    idem_conformance::main(vec![
        Target::new("mssql", own).with_cases(cases::ALL),
        Target::new("mssql-insert", forced)
            .with_cases(cases::ALL)
            .derived(),
        Target::new("mssql-hostile", hostile).derived(),
    ])
}
