//! SQLite.

use std::path::Path;
use std::sync::OnceLock;

use async_trait::async_trait;
#[cfg(feature = "suite")]
use idem_conformance::{CallerTransaction, secrets::MARK};
use idem_core::BoxError;
#[cfg(feature = "suite")]
use idem_core::Key;
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use idem_sqlite::sqlx::{Connection, query_scalar};
use idem_sqlite::{Config, SqliteStore};

use crate::Adapter;

/// The file of the first namespace, as the store has made it. The others are copies.
static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();

/// Files. Each namespace is a folder with one database.
#[derive(Debug, Clone, Copy)]
pub struct Sqlite;

impl Sqlite {
    /// The name of the file in its folder.
    pub const FILE: &str = "idem.db";

    /// Begins a caller's transaction.
    ///
    /// # Errors
    ///
    /// The driver's.
    #[cfg(feature = "suite")]
    pub async fn begin_on(store: SqliteStore) -> Result<Box<dyn CallerTransaction>, BoxError> {
        let transaction = store.pool().begin_with("BEGIN IMMEDIATE").await?;
        Ok(Box::new(crate::Begun { store, transaction }))
    }
}

#[async_trait]
impl Adapter for Sqlite {
    type Store = SqliteStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
        let version = query_scalar("SELECT sqlite_version()");
        Ok((
            "SQLite".to_owned(),
            version.fetch_one(&mut connection).await?,
        ))
    }

    fn new_name(&self) -> String {
        std::env::temp_dir()
            .join(crate::random_name())
            .display()
            .to_string()
    }

    async fn create(&self, folder: &str) -> Result<(), BoxError> {
        std::fs::create_dir(folder)?;
        let file = Path::new(folder).join(Self::FILE);
        if let Some(empty) = EMPTY.get() {
            return Ok(std::fs::write(file, empty)?);
        }
        let store = self.store(folder).await?;
        store.migrate().await?;
        store.close().await;
        // What the store has written may still be in the log beside the file.
        let options = SqliteConnectOptions::new().filename(&file);
        let mut connection = SqliteConnection::connect_with(&options).await?;
        let busy = query_scalar::<_, i64>("PRAGMA wal_checkpoint(TRUNCATE)");
        let is_whole = busy.fetch_one(&mut connection).await? == 0;
        connection.close().await?;
        if is_whole {
            // Another case may have come first.
            let _ = EMPTY.set(std::fs::read(file)?);
        }
        Ok(())
    }

    async fn store(&self, folder: &str) -> Result<SqliteStore, BoxError> {
        let url = format!("sqlite:{}", Path::new(folder).join(Self::FILE).display());
        Ok(SqliteStore::connect(&url, Config::new()).await?)
    }

    async fn destroy(&self, folder: &str) -> Result<(), BoxError> {
        Ok(std::fs::remove_dir_all(folder)?)
    }

    #[cfg(feature = "suite")]
    async fn begin(&self, folder: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        Ok(Some(Self::begin_on(self.store(folder).await?).await?))
    }

    #[cfg(feature = "suite")]
    async fn damage(&self, folder: &str, key: &Key) -> Result<bool, BoxError> {
        let store = self.store(folder).await?;
        let update =
            "UPDATE idem_records SET result = ?4 WHERE scope = ?1 AND operation = ?2 AND id = ?3";
        let damaged = idem_sqlite::sqlx::query(update)
            .bind(key.scope())
            .bind(key.operation())
            .bind(key.id())
            .bind(MARK.as_bytes())
            .execute(store.pool())
            .await?;
        store.close().await;
        Ok(damaged.rows_affected() == 1)
    }
}

#[cfg(feature = "suite")]
crate::suite::caller_transaction!(
    SqliteStore,
    idem_sqlite::sqlx::SqliteTransaction<'static>,
    commit,
    rollback
);
