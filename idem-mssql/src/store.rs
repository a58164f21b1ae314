//! [`MssqlStore`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::wrappers::Batched;
use idem_core::{
    BatchStore, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Completion, Effect, Error,
    ErrorKind, Failure, IdempotencyStore, Key, Limits, Record, Response, Result, WatermarkStore,
};

use crate::config::Config;
use crate::operations::Operations;
use crate::pool::{Manager, Pool};
use crate::session::{ConnectionGuard, Session};

pub(crate) const BACKEND: &str = "mssql";

/// The store on SQL Server and Azure SQL, and on servers that speak T-SQL like them.
///
/// A clone shares the pool. Nothing is created here: see [`migrate`](Self::migrate).
///
/// # Sessions
///
/// Defaults of the server, the database or the login that change what a statement means do not reach the store. A session
/// begins with IMPLICIT_TRANSACTIONS, XACT_ABORT, NOCOUNT and NUMERIC_ROUNDABORT off, READ COMMITTED, LOCK_TIMEOUT -1,
/// ROWCOUNT 0, the longest TEXTSIZE, and the ANSI settings, ARITHABORT and QUOTED_IDENTIFIER on. Each request sets
/// IMPLICIT_TRANSACTIONS, XACT_ABORT, ROWCOUNT, LOCK_TIMEOUT and the isolation level itself. DATEFORMAT and LANGUAGE change
/// nothing. Read-only intent leads to a secondary: [`verify`](Self::verify) and every write say so.
///
/// A connection is dirty from before a request is sent until its answer has been read to the end, and while a transaction is
/// open; a dirty connection is closed.
#[derive(Clone)]
pub struct MssqlStore {
    pub(crate) pool: Pool,
    pub(crate) operations: Arc<Operations>,
    /// This store without batching, behind the batches; `None` where [`Config::with_batching`] turned it off.
    batched: Option<Arc<Batched<Self>>>,
}

impl MssqlStore {
    /// A store on the caller's pool, with the default [`Config`].
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self::with_config(pool, Config::new())
    }

    /// A store on the caller's pool. The pool's connections wait for an answer for at least as long as
    /// [`Config::with_timeout`] says; a longer `command_timeout` of the driver's configuration stands (30 s by default).
    #[must_use]
    pub fn with_config(pool: Pool, config: Config) -> Self {
        pool.manager().be_patient(config.timeout());
        let mut store = Self {
            pool,
            operations: Arc::new(Operations::new(config)),
            batched: None,
        };
        let config = &store.operations.config;
        if config.batching() {
            let batched = Batched::new(store.clone()).with_timeout(config.timeout());
            store.batched = Some(Arc::new(batched));
        }
        store
    }

    /// A store on a pool of its own: at most 10 connections, opened as they are needed, and tested before use
    /// only after half a minute of idling.
    ///
    /// `url` is `mssql://user:password@host:port/database?encrypt=on&trust_cert=false`, with `sqlserver` for `mssql` if
    /// you like. Special characters in names and password are percent-encoded; the port is 1433 and the database the
    /// user's default where they are left out.
    ///
    /// | parameter | |
    /// | --- | --- |
    /// | `encrypt=on` (default) | TLS, or no connection |
    /// | `encrypt=strict` | TLS from the first byte (TDS 8.0, SQL Server 2022 and later) |
    /// | `encrypt=off` | no TLS unless the server insists: the password crosses the network readable |
    /// | `trust_cert=true` | the server's certificate is not checked: for tests |
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the URL cannot be read; `Unavailable` or `Misconfigured` when no connection can be
    /// made.
    pub async fn connect(url: &str, config: Config) -> Result<Self> {
        let at = |error: Error| error.at(BACKEND, "connect");
        let driver = crate::url::parse(url).map_err(at)?;
        let manager = Manager::new(driver).with_connect_timeout(config.timeout());
        let pool = Pool::builder(manager).max_size(10).build();
        let pool = pool.map_err(|source| {
            let message = "the pool cannot be built";
            at(Error::new(ErrorKind::Misconfigured, Effect::None, message).with_source(source))
        })?;
        let store = Self::with_config(pool, config);
        // Without a connection there is nothing to be asked.
        drop(ConnectionGuard::from(&store.pool).await.map_err(at)?);
        store
            .operations
            .dialect(&mut store.session())
            .await
            .map_err(at)?;
        Ok(store)
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// How the store is set up.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.operations.config
    }

    pub(crate) fn session(&self) -> Session<'_> {
        Session::Pool(&self.pool, &self.operations.config)
    }
}

/// Shows the names, not the pool, whose options hold the password.
impl fmt::Debug for MssqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MssqlStore")
            .field("config", &self.operations.config)
            .finish_non_exhaustive()
    }
}

pub(crate) fn at(operation: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.at(BACKEND, operation)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl IdempotencyStore for MssqlStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn limits(&self) -> Limits {
        self.operations.config.limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        Some(self)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        if let Some(batched) = &self.batched {
            return batched.claim(request).await;
        }
        self.operations
            .claim(&mut self.session(), request)
            .await
            .map_err(at("claim"))
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        if let Some(batched) = &self.batched {
            return batched.complete(claim, response, retention).await;
        }
        let sealing = self
            .operations
            .response(response, retention)
            .map_err(at("complete"))?;
        self.operations
            .seal(&mut self.session(), claim, &sealing)
            .await
            .map_err(at("complete"))
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        let sealing = self
            .operations
            .failure(failure, retention)
            .map_err(at("fail"))?;
        self.operations
            .seal(&mut self.session(), claim, &sealing)
            .await
            .map_err(at("fail"))
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.operations
            .release(&mut self.session(), claim)
            .await
            .map_err(at("release"))
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.operations
            .renew(&mut self.session(), claim, lease)
            .await
            .map_err(at("renew"))
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.operations
            .get(&mut self.session(), key)
            .await
            .map_err(at("get"))
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.operations
            .delete_expired(&mut self.session(), limit)
            .await
            .map_err(at("delete_expired"))
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.operations
            .fail_abandoned(&mut self.session(), limit)
            .await
            .map_err(at("fail_abandoned"))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BatchStore for MssqlStore {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        self.operations
            .claim_many(&self.pool, requests)
            .await
            .into_iter()
            .map(|answer| answer.map_err(at("claim_many")))
            .collect()
    }

    async fn complete_many(&self, completions: &[Completion]) -> Vec<Result<()>> {
        self.operations
            .complete_many(&self.pool, completions)
            .await
            .into_iter()
            .map(|answer| answer.map_err(at("complete_many")))
            .collect()
    }
}
