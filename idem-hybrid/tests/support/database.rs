//! The sources of truth.

use std::time::Duration;

use idem_conformance::{Harness, Missing, Profile};
use idem_stores::{Adapter, MySql, Postgres, Sqlite, Suite, found};

/// A database, with the cases' namespaces as in its own crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
    MySql,
}

impl Database {
    pub(crate) const ALL: [Self; 3] = [Self::Sqlite, Self::Postgres, Self::MySql];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
        }
    }

    /// Returns its own target, which is that of MariaDB where there is no MySQL. Through a proxy,
    /// stores are on a caller's pool.
    pub(crate) fn target(self) -> Result<Box<dyn Harness>, Missing> {
        let profile = Profile::new().shared_between_processes().durable().batch();
        let profile = profile.checkpoints().watermarks().admin().transactions();
        let served = profile.clone().server_clock().network().row_locks();
        Ok(match self {
            Self::Sqlite => {
                let profile = profile.with_clock_tick(Duration::from_millis(1));
                Box::new(Suite::new(self.name(), Sqlite, profile))
            }
            Self::Postgres => {
                let adapter = Postgres::new(found("postgres")?);
                Box::new(self.behind_proxy(adapter.clone(), adapter.with_pool(10), served))
            }
            Self::MySql => {
                let url = found("mysql").or_else(|_| found("mariadb"))?;
                let adapter = MySql::new(url);
                let served = served.with_claims_that_ask_again();
                Box::new(self.behind_proxy(adapter.clone(), adapter.with_pool(10), served))
            }
        })
    }

    fn behind_proxy<A: Adapter>(self, adapter: A, proxied: A, profile: Profile) -> Suite<A> {
        Suite::new(self.name(), adapter, profile).with_proxied(proxied)
    }
}
