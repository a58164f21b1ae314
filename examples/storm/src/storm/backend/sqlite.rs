//! SQLite: records and ledger in one file, whose name the user gives.

use idem_core::BoxError;
use idem_sqlite::sqlx::{SqliteConnection, query_scalar};
use idem_sqlite::{Config, SqliteStore};

use super::database::sql_database;
use super::{Backend, Location};

#[derive(Debug)]
pub(super) struct Sqlite {
    store: SqliteStore,
    ledger: String,
}

impl Sqlite {
    pub(super) async fn boxed(location: &Location) -> Result<Box<dyn Backend>, BoxError> {
        Ok(Box::new(Self::open(location).await?))
    }

    pub(super) async fn open(location: &Location) -> Result<Self, BoxError> {
        let Location { url, namespace, .. } = location;
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err(
                "a SQLite database in memory belongs to one process, and the storm is several; \
                 give a file, sqlite:PATH"
                    .into(),
            );
        }
        let config = Config::new().with_table(format!("{namespace}_records"))?;
        Ok(Self {
            store: SqliteStore::connect(url, config).await?,
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
