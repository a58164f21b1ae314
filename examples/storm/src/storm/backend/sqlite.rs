//! SQLite: records and ledger in one file, whose name the user gives.

use idem_core::BoxError;
use idem_sqlite::sqlx::{SqliteConnection, query_scalar};
use idem_sqlite::{Config, SqliteStore};

use super::Location;
use super::database::sql_database;
use crate::storm::stop::{OrStop, Stop};

#[derive(Debug)]
pub(super) struct Sqlite {
    store: SqliteStore,
    ledger: String,
}

impl Sqlite {
    pub(super) async fn open(location: &Location) -> Result<Self, Stop> {
        let Location { url, namespace, .. } = location;
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err(Stop::new(
                "--store: a SQLite database in memory belongs to one process, and the storm is several; \
                 give a file, sqlite:PATH",
            ));
        }
        let config = Config::new().with_table(format!("{namespace}_records"));
        let store = SqliteStore::connect(url, config.or_stop("--store")?).await;
        Ok(Self {
            store: store.or_stop(format!("--store: `{url}` cannot be opened"))?,
            ledger: format!("{namespace}_ledger"),
        })
    }

    async fn product(&self) -> Result<String, BoxError> {
        let version = query_scalar("SELECT sqlite_version()");
        let version: String = version.fetch_one(self.store.pool()).await?;
        Ok(format!("SQLite {version}"))
    }

    async fn remove_all(&self) -> Result<(), BoxError> {
        let (records, ledger) = (self.store.config().table(), &self.ledger);
        self.run(format!(
            "DROP TABLE IF EXISTS {ledger}; DROP TABLE IF EXISTS {records}; \
             DROP TABLE IF EXISTS {records}_watermarks"
        ))
        .await?;
        self.store.pool().close().await;
        Ok(())
    }
}

sql_database!(
    Sqlite,
    idem_sqlite,
    SqliteConnection,
    "INTEGER",
    "TEXT",
    "?1"
);
