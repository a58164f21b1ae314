//! Runs the suite, and this crate's own cases, against MariaDB and MySQL; the suite there once more
//! with claims that always insert before they read; against three nodes of a Galera cluster, a
//! different one each time a store is opened; against one node, whose open transactions lock the
//! keys that they have claimed; behind `Batched` and `Protected`; and with hostile settings of the sessions. Each driver whose
//! feature is on has targets for its transactions.

mod cases;
mod support;

use std::process::ExitCode;

use idem_conformance::{Batched, Protected, Target};
use idem_stores::MySql;
use idem_stores::callers::{self, Calls, driven};
use support::{adapter, hostile, profile, target};

/// Creates the target of a driver, whose name begins with that of its server.
fn driver(name: &'static str, calls: impl Calls<Base = MySql>) -> Target {
    driven(name, calls, move || adapter(name), profile(name))
}

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
    let plain = |name| Target::new(name, move || async move { target(name) });
    let hostile = |name| Target::new(name, move || hostile(name));
    idem_conformance::main(vec![
        plain("mariadb").with_cases(cases::ALL),
        plain("mysql").with_cases(cases::ALL),
        plain("mariadb-insert-first").derived(),
        plain("mysql-insert-first").derived(),
        plain("galera").derived(),
        plain("galera-node").derived(),
        Target::new("mariadb-one-lane", async || {
            target("mariadb").map(Batched::new)
        })
        .derived(),
        Target::new("mariadb-protected", async || {
            target("mariadb").map(Protected::new)
        })
        .derived(),
        hostile("mariadb-hostile").derived(),
        hostile("mysql-hostile").derived(),
        driver("mariadb-sqlx", callers::SqlxMySql),
        #[cfg(feature = "diesel-async")]
        driver("mariadb-diesel-async", callers::DieselMySql),
        #[cfg(feature = "mysql_async")]
        driver("mariadb-mysql-async", callers::MySqlAsync),
        #[cfg(feature = "sea-orm")]
        driver("mariadb-sea-orm", callers::SeaOrmMySql),
        driver("mysql-sqlx", callers::SqlxMySql),
        #[cfg(feature = "diesel-async")]
        driver("mysql-diesel-async", callers::DieselMySql),
        #[cfg(feature = "mysql_async")]
        driver("mysql-mysql-async", callers::MySqlAsync),
        #[cfg(feature = "sea-orm")]
        driver("mysql-sea-orm", callers::SeaOrmMySql),
    ])
}
