//! The stores that are measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::{
    AttemptId, BoxError, Claim, ClaimRequest, Fingerprint, IdempotencyStore, Key, MemoryStore,
    Response,
};
use idem_postgres::PostgresStore;
use idem_redis::RedisStore;
use idem_redis::redis::Client;
use idem_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::Bare;

/// A store, and the bare statements beside it.
#[derive(Debug)]
pub struct Backend {
    /// Its name in the report.
    pub name: &'static str,
    /// The store.
    pub store: Arc<dyn IdempotencyStore>,
    /// The statements that it is compared with.
    pub bare: Option<Bare>,
    next: AtomicU64,
    /// Before each id, where an earlier run may have left some.
    prefix: String,
    /// Removed with the backend.
    _folder: Option<TempDir>,
}

impl Backend {
    fn new(name: &'static str, store: impl IdempotencyStore, bare: Option<Bare>) -> Self {
        Self {
            name,
            store: Arc::new(store),
            bare,
            next: AtomicU64::new(0),
            prefix: "key".to_owned(),
            _folder: None,
        }
    }

    /// An id that was not used before.
    pub fn fresh_id(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number:012}", self.prefix)
    }

    /// A claim of the key with this id.
    ///
    /// # Panics
    ///
    /// If the id is no id.
    pub fn request(&self, id: &str) -> ClaimRequest {
        let key = Key::new("bench", "payments.create", id).expect("a valid id");
        ClaimRequest::new(key, Fingerprint::raw("request"))
    }

    /// Claims a fresh key.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn claim_fresh(&self) -> Result<Claim, BoxError> {
        let outcome = self.store.claim(&self.request(&self.fresh_id())).await?;
        outcome
            .acquired()
            .ok_or_else(|| "the key was not fresh".into())
    }

    /// Completes a claim.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn complete(&self, claim: &Claim) -> Result<(), BoxError> {
        let (response, day) = (Response::new(200, "done"), Duration::from_secs(86_400));
        Ok(self.store.complete(claim, &response, day).await?)
    }
}

/// Every backend that is to be had here; a line on standard error about each that is not.
///
/// # Errors
///
/// What opening one answers.
pub async fn backends() -> Result<Vec<Backend>, BoxError> {
    let mut backends = vec![
        Backend::new("memory", MemoryStore::new(), None),
        sqlite().await?,
    ];
    match idem_servers::url_for("postgres") {
        Some(url) => backends.push(postgres(&url).await?),
        None => eprintln!("postgres: not run, no server (`cargo xtask servers up postgres`)"),
    }
    match idem_servers::url_for("redis") {
        Some(url) => backends.push(redis(&url).await?),
        None => eprintln!("redis: not run, no server (`cargo xtask servers up redis`)"),
    }
    Ok(backends)
}

async fn sqlite() -> Result<Backend, BoxError> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("bench.db").display());
    let store = SqliteStore::connect(&url, idem_sqlite::Config::new()).await?;
    store.migrate().await?;
    sqlx::raw_sql(Bare::TABLE).execute(store.pool()).await?;
    let bare = Bare::Sqlite(store.pool().clone());
    let mut backend = Backend::new("sqlite", store, Some(bare));
    backend._folder = Some(folder);
    Ok(backend)
}

async fn postgres(url: &str) -> Result<Backend, BoxError> {
    let config = idem_postgres::Config::new().with_table("idem_bench")?;
    let store = PostgresStore::connect(url, config).await?;
    let old = "DROP TABLE IF EXISTS idem_bench; DROP TABLE IF EXISTS bare";
    sqlx::raw_sql(old).execute(store.pool()).await?;
    store.migrate().await?;
    sqlx::raw_sql(Bare::TABLE).execute(store.pool()).await?;
    let bare = Bare::Postgres(store.pool().clone());
    Ok(Backend::new("postgres", store, Some(bare)))
}

/// The keys go when their server does, or after a day.
async fn redis(url: &str) -> Result<Backend, BoxError> {
    let run = AttemptId::random()
        .as_bytes()
        .map(|byte| format!("{byte:02x}"))
        .concat();
    let config = idem_redis::Config::new().with_namespace(format!("bench-{run}"))?;
    let store = RedisStore::connect(url, config).await?;
    let connection = Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    let mut backend = Backend::new("redis", store, Some(Bare::Redis(connection)));
    backend.prefix = run;
    Ok(backend)
}
