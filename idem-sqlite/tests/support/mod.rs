//! How the tests reach SQLite.

use std::path::Path;
use std::sync::Arc;

use idem_conformance::{Harness, Product, Profile};
use idem_core::{AttemptId, BatchStore, BoxError, IdempotencyStore, async_trait};
use idem_sqlite::{Config, SqliteStore};

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
        profile.batch().checkpoints().watermarks()
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
}
