//! Runs the suite, and this crate's own cases, against PostgreSQL, directly and behind PgBouncer in
//! transaction mode; and the suite behind `Batched` and `Protected`, and under hostile defaults of the database and
//! the role. Each driver has a target for its transactions.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Protected, Target};
use idem_stores::callers::{
    DeadpoolPostgres, DieselPostgres, SeaOrmPostgres, SqlxPostgres, TokioPostgres, driven,
};
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
        Target::new("pgbouncer", async || pooled()).with_cases(cases::ALL),
        Target::new("postgres-one-lane", async || direct().map(Batched::new)),
        Target::new("postgres-protected", async || direct().map(Protected::new)),
        Target::new("postgres-hostile", hostile),
        driven("postgres-sqlx", SqlxPostgres, adapter, served()),
        driven("postgres-tokio-postgres", TokioPostgres, adapter, served()),
        driven("postgres-deadpool", DeadpoolPostgres, adapter, served()),
        driven("postgres-diesel-async", DieselPostgres, adapter, served()),
        driven("postgres-sea-orm", SeaOrmPostgres, adapter, served()),
    ])
}
