//! Access of the tests to SQLite.

use std::path::Path;
use std::time::Duration;

use idem_conformance::{CallerTransaction, Profile};
use idem_core::{BoxError, Key, async_trait};
use idem_sqlite::SqliteStore;
use idem_stores::{Adapter, Sqlite, Suite};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

/// Returns the promises of every target.
pub(crate) fn profile() -> Profile {
    let profile = Profile::new().shared_between_processes().durable();
    let profile = profile.batch().checkpoints().watermarks().admin();
    let profile = profile.transactions().damage();
    profile.with_clock_tick(Duration::from_millis(1))
}

/// Creates a target.
pub(crate) fn target<A: Adapter>(name: &str, adapter: A) -> Suite<A> {
    Suite::new(name, adapter, profile())
}

/// Opens a store on the file in this folder.
pub(crate) async fn store(folder: &str) -> Result<SqliteStore, BoxError> {
    Sqlite.store(folder).await
}

/// Callers' pools, whose files and connections have the most different settings possible.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hostile;

/// Settings of a connection that must change nothing.
const PRAGMAS: &[(&str, &str)] = &[
    ("busy_timeout", "60000"),
    ("foreign_keys", "OFF"),
    ("defer_foreign_keys", "ON"),
    ("recursive_triggers", "ON"),
    ("reverse_unordered_selects", "ON"),
    ("case_sensitive_like", "ON"),
    ("ignore_check_constraints", "ON"),
    ("full_column_names", "ON"),
    ("short_column_names", "OFF"),
    ("count_changes", "ON"),
    ("empty_result_callbacks", "ON"),
    ("automatic_index", "OFF"),
    ("cell_size_check", "ON"),
    ("checkpoint_fullfsync", "ON"),
    ("legacy_alter_table", "ON"),
    ("trusted_schema", "OFF"),
    ("secure_delete", "ON"),
    ("temp_store", "MEMORY"),
    ("cache_size", "1"),
    ("mmap_size", "1048576"),
    ("wal_autocheckpoint", "1"),
    ("journal_size_limit", "0"),
    ("synchronous", "EXTRA"),
];

/// Returns the options of connections to the file in this folder.
fn hostile_options(folder: &str) -> SqliteConnectOptions {
    let options = SqliteConnectOptions::new()
        .filename(Path::new(folder).join(Sqlite::FILE))
        .journal_mode(SqliteJournalMode::Wal);
    let pragma = |options: SqliteConnectOptions, &(name, value)| options.pragma(name, value);
    PRAGMAS.iter().fold(options, pragma)
}

async fn hostile_pool(options: SqliteConnectOptions) -> Result<SqlitePool, BoxError> {
    let pool = SqlitePoolOptions::new().max_connections(4);
    Ok(pool.connect_with(options).await?)
}

#[async_trait]
impl Adapter for Hostile {
    type Store = SqliteStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        Sqlite.product().await
    }

    fn new_name(&self) -> String {
        Sqlite.new_name()
    }

    async fn create(&self, folder: &str) -> Result<(), BoxError> {
        std::fs::create_dir(folder)?;
        // These apply to a new file. On another one `auto_vacuum` waits for the write lock, for as
        // long as the connection's busy time-out says.
        let options = hostile_options(folder)
            .pragma("encoding", "'UTF-16be'")
            .page_size(512)
            .auto_vacuum(SqliteAutoVacuum::Full)
            .create_if_missing(true);
        let store = SqliteStore::new(hostile_pool(options).await?);
        store.migrate().await?;
        let query = sqlx::query_scalar("PRAGMA encoding");
        let encoding: String = query.fetch_one(store.pool()).await?;
        assert_eq!(encoding, "UTF-16be");
        store.close().await;
        Ok(())
    }

    async fn store(&self, folder: &str) -> Result<SqliteStore, BoxError> {
        let store = SqliteStore::new(hostile_pool(hostile_options(folder)).await?);
        store.verify().await?;
        Ok(store)
    }

    async fn destroy(&self, folder: &str) -> Result<(), BoxError> {
        Sqlite.destroy(folder).await
    }

    async fn begin(&self, folder: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        Ok(Some(Sqlite::begin_on(self.store(folder).await?).await?))
    }

    async fn damage(&self, folder: &str, key: &Key) -> Result<bool, BoxError> {
        Sqlite.damage(folder, key).await
    }
}
