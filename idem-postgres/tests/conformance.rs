//! Runs the suite, and this crate's own cases, against PostgreSQL, directly and behind PgBouncer in
//! transaction mode; and the suite behind `Batched`, and under hostile defaults of the database and
//! the role.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Target};
use support::PostgresHarness;

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
    let one_lane = || async { PostgresHarness::direct().map(Batched::new) };
    idem_conformance::main(vec![
        Target::new("postgres", || async { PostgresHarness::direct() }).with_cases(cases::ALL),
        Target::new("pgbouncer", || async { PostgresHarness::pooled() }).with_cases(cases::ALL),
        Target::new("postgres-one-lane", one_lane),
        Target::new("postgres-hostile", PostgresHarness::hostile),
    ])
}
