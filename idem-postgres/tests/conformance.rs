//! Runs the suite, and this crate's own cases, against PostgreSQL, directly and behind PgBouncer in
//! transaction mode; and the suite behind `Batched` and `Protected`, and under hostile defaults of the database and
//! the role. Each driver whose feature is on has a target for its transactions.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Protected, Target};
use idem_stores::callers::{self, driven};
use support::{adapter, direct, hostile, pooled, served};

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
        Target::new("pgbouncer", async || pooled())
            .with_cases(cases::ALL)
            .derived(),
        Target::new("postgres-one-lane", async || direct().map(Batched::new)).derived(),
        Target::new("postgres-protected", async || direct().map(Protected::new)).derived(),
        Target::new("postgres-hostile", hostile).derived(),
        driven("postgres-sqlx", callers::SqlxPostgres, adapter, served()),
        #[cfg(feature = "tokio-postgres")]
        driven(
            "postgres-tokio-postgres",
            callers::TokioPostgres,
            adapter,
            served(),
        ),
        #[cfg(feature = "deadpool-postgres")]
        driven(
            "postgres-deadpool",
            callers::DeadpoolPostgres,
            adapter,
            served(),
        ),
        #[cfg(feature = "diesel-async")]
        driven(
            "postgres-diesel-async",
            callers::DieselPostgres,
            adapter,
            served(),
        ),
        #[cfg(feature = "sea-orm")]
        driven(
            "postgres-sea-orm",
            callers::SeaOrmPostgres,
            adapter,
            served(),
        ),
    ])
}
