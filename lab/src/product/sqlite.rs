//! [`SqliteNormal`].

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_sqlite::SqliteStore;
use idem_sqlite::sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use idem_stores::{Adapter, Sqlite};

/// SQLite on a caller's pool with `synchronous = NORMAL`, which a power cut may cost the last
/// commits.
#[derive(Debug, Clone, Copy)]
pub struct SqliteNormal;

impl SqliteNormal {
    /// Its name in [`Cell::parse`](crate::cell::Cell::parse).
    pub const NAME: &str = "sqlite-normal";
}

#[async_trait]
impl Adapter for SqliteNormal {
    type Store = SqliteStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        Sqlite.product().await
    }

    fn new_name(&self) -> String {
        Sqlite.new_name()
    }

    async fn create(&self, folder: &str) -> Result<(), BoxError> {
        Sqlite.create(folder).await
    }

    async fn store(&self, folder: &str) -> Result<SqliteStore, BoxError> {
        let options = SqliteConnectOptions::new()
            .filename(Path::new(folder).join(Sqlite::FILE))
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(2));
        let pool = SqlitePoolOptions::new().max_connections(3);
        Ok(SqliteStore::new(pool.connect_with(options).await?))
    }

    async fn destroy(&self, folder: &str) -> Result<(), BoxError> {
        Sqlite.destroy(folder).await
    }
}
