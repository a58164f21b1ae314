//! How the tests reach SQLite.

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
use sqlx::SqliteTransaction;

/// Each namespace is a folder with one database; the locator is its path.
pub(crate) struct SqliteHarness;

/// A store on the file in this folder.
pub(crate) async fn store(folder: &str) -> Result<SqliteStore, BoxError> {
    let file = Path::new(folder).join("idem.db");
    let url = format!("sqlite:{}", file.display());
    Ok(SqliteStore::connect(&url, Config::new()).await?)
}

#[async_trait]
impl Harness for SqliteHarness {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn profile(&self) -> Profile {
        let profile = Profile::new().shared_between_processes().durable();
        let profile = profile.batch().checkpoints().watermarks();
        profile.transactions().damage()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
        let version: String = sqlx::query_scalar("SELECT sqlite_version()")
            .fetch_one(&pool)
            .await?;
        Ok(Product::new("SQLite", version))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        let folder = std::env::temp_dir().join(format!("idem-test-{random:032x}"));
        std::fs::create_dir(&folder)?;
        let folder = folder.display().to_string();
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
