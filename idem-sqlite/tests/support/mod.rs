//! Access of the tests to SQLite.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use idem_conformance::secrets::MARK;
use idem_conformance::{CallerTransaction, Harness, Product, Profile};
use idem_core::{
    AttemptId, BatchStore, BoxError, Claim, ClaimOutcome, ClaimRequest, IdempotencyStore, Key,
    Response, Result, async_trait,
};
use idem_sqlite::{Config, SqliteStore};
use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{SqlitePool, SqliteTransaction};

/// Each namespace is a folder with one database; the locator is its path.
pub(crate) struct SqliteHarness;

/// Opens a store on the file in this folder.
pub(crate) async fn store(folder: &str) -> Result<SqliteStore, BoxError> {
    let file = Path::new(folder).join("idem.db");
    let url = format!("sqlite:{}", file.display());
    Ok(SqliteStore::connect(&url, Config::new()).await?)
}

fn new_folder() -> Result<String, BoxError> {
    let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
    let folder = std::env::temp_dir().join(format!("idem-test-{random:032x}"));
    std::fs::create_dir(&folder)?;
    Ok(folder.display().to_string())
}

#[async_trait]
impl Harness for SqliteHarness {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn profile(&self) -> Profile {
        let profile = Profile::new().shared_between_processes().durable();
        let profile = profile.batch().checkpoints().watermarks();
        let profile = profile.transactions().damage();
        profile.with_clock_tick(Duration::from_millis(1))
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
        let version: String = sqlx::query_scalar("SELECT sqlite_version()")
            .fetch_one(&pool)
            .await?;
        Ok(Product::new("SQLite", version))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let folder = new_folder()?;
        let store = store(&folder).await?;
        store.migrate().await?;
        store.pool().close().await;
        Ok(folder)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(store(namespace).await?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        Ok(std::fs::remove_dir_all(namespace)?)
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(store(namespace).await?)))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let store = store(namespace).await?;
        let transaction = store.pool().begin_with("BEGIN IMMEDIATE").await?;
        Ok(Some(Box::new(Begun { store, transaction })))
    }

    async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError> {
        let store = store(namespace).await?;
        let query =
            "UPDATE idem_records SET result = ?4 WHERE scope = ?1 AND operation = ?2 AND id = ?3";
        let damaged = sqlx::query(query)
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

/// A transaction on a connection of its own.
struct Begun {
    store: SqliteStore,
    transaction: SqliteTransaction<'static>,
}

#[async_trait]
impl CallerTransaction for Begun {
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.store.claim_in(&mut self.transaction, request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let transaction = &mut self.transaction;
        self.store
            .complete_in(transaction, claim, response, retention)
            .await
    }

    async fn commit(self: Box<Self>) -> Result<(), BoxError> {
        Ok(self.transaction.commit().await?)
    }

    async fn rollback(self: Box<Self>) -> Result<(), BoxError> {
        Ok(self.transaction.rollback().await?)
    }
}

/// The same on callers' pools, whose files and connections have the most different settings
/// possible.
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

/// Opens a pool on the file in this folder.
async fn hostile_pool(folder: &str) -> Result<SqlitePool, BoxError> {
    let mut options = SqliteConnectOptions::new()
        .filename(Path::new(folder).join("idem.db"))
        // Applies to a new file only.
        .pragma("encoding", "'UTF-16be'")
        .page_size(512)
        .auto_vacuum(SqliteAutoVacuum::Full)
        .journal_mode(SqliteJournalMode::Wal)
        .create_if_missing(true);
    for &(name, value) in PRAGMAS {
        options = options.pragma(name, value);
    }
    let pool = SqlitePoolOptions::new().max_connections(4);
    Ok(pool.connect_with(options).await?)
}

async fn hostile(folder: &str) -> Result<SqliteStore, BoxError> {
    let store = SqliteStore::new(hostile_pool(folder).await?);
    store.verify().await?;
    Ok(store)
}

#[async_trait]
impl Harness for Hostile {
    fn name(&self) -> &str {
        "sqlite-hostile"
    }

    fn profile(&self) -> Profile {
        SqliteHarness.profile()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        SqliteHarness.product().await
    }

    async fn create(&self) -> Result<String, BoxError> {
        let folder = new_folder()?;
        let store = SqliteStore::new(hostile_pool(&folder).await?);
        store.migrate().await?;
        let query = sqlx::query_scalar("PRAGMA encoding");
        let encoding: String = query.fetch_one(store.pool()).await?;
        assert_eq!(encoding, "UTF-16be");
        store.close().await;
        Ok(folder)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(hostile(namespace).await?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        SqliteHarness.destroy(namespace).await
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(hostile(namespace).await?)))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let store = hostile(namespace).await?;
        let transaction = store.pool().begin_with("BEGIN IMMEDIATE").await?;
        Ok(Some(Box::new(Begun { store, transaction })))
    }

    async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError> {
        SqliteHarness.damage(namespace, key).await
    }
}
