//! Runs the suite, and this crate's own cases, against PostgreSQL, directly and behind PgBouncer in
//! transaction mode; and the suite behind `Batched`, and under hostile defaults of the database and
//! the role.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Target};
use support::{direct, hostile, pooled};

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
        Target::new("postgres", async || direct()).with_cases(cases::ALL),
        Target::new("pgbouncer", async || pooled()).with_cases(cases::ALL),
        Target::new("postgres-one-lane", async || direct().map(Batched::new)),
        Target::new("postgres-hostile", hostile),
    ])
}
