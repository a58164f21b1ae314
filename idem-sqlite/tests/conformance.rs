//! Runs the suite, and this crate's own cases, against SQLite; the suite on files and connections
//! with hostile settings, and behind `Batched` and `Protected`. Each driver whose feature is on has
//! a target for its transactions.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Protected, Target};
use idem_stores::Sqlite;
use idem_stores::callers::{self, driven};
use support::{Hostile, profile, target};

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
        })
        .derived(),
        Target::new("sqlite-one-lane", async || {
            Ok(Batched::new(target("sqlite", Sqlite)))
        })
        .derived(),
        Target::new("sqlite-protected", async || {
            Ok(Protected::new(target("sqlite", Sqlite)))
        })
        .derived(),
        driven("sqlite-sqlx", callers::SqlxSqlite, || Ok(Sqlite), profile()),
        #[cfg(feature = "rusqlite")]
        driven(
            "sqlite-rusqlite",
            callers::Rusqlite,
            || Ok(Sqlite),
            profile(),
        ),
        #[cfg(feature = "sea-orm")]
        driven(
            "sqlite-sea-orm",
            callers::SeaOrmSqlite,
            || Ok(Sqlite),
            profile(),
        ),
    ])
}
