//! Access of the tests to a T-SQL server.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idem_conformance::{
    CallerTransaction, CaseError, Context, Harness, Missing, Product, Profile, with_password,
};
use idem_core::{
    AttemptId, BatchStore, BoxError, Claim, ClaimOutcome, ClaimRequest, Error, IdempotencyStore,
    Response, async_trait,
};
use idem_mssql::deadpool::managed::{Hook, HookError};
use idem_mssql::tiberius::Row;
use idem_mssql::{
    ClaimMethod, Config, Connection, Isolation, Manager, MssqlStore, Pool, Transaction,
};
use url::Url;

/// A server, and the claim method on it. Each namespace is a table of that name, with the tables
/// beside it.
pub(crate) struct MssqlHarness {
    name: &'static str,
    method: ClaimMethod,
    url: String,
}

/// Settings that a server, a database, a login, or the connection's former user may leave. Above
/// READ COMMITTED, Babelfish has only SNAPSHOT by default.
const HOSTILE: &str = "SET XACT_ABORT ON; SET LOCK_TIMEOUT 0; SET ROWCOUNT 1; SET NOCOUNT ON;
SET DATEFORMAT dmy; SET ANSI_WARNINGS ON; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SET IMPLICIT_TRANSACTIONS ON;";

/// Connecting may cost a third of a second, so the handles of a namespace share a pool. A namespace
/// belongs to one case, and a case to one runtime.
static POOLS: Mutex<BTreeMap<String, Pool>> = Mutex::new(BTreeMap::new());

impl MssqlHarness {
    /// Creates the harness with the server's own claim method.
    pub(crate) fn made_for() -> Result<Self, Missing> {
        let missing = || Missing::new(idem_servers::missing_reason("mssql"));
        Ok(Self {
            name: "mssql",
            method: ClaimMethod::Auto,
            url: idem_servers::url_for("mssql").ok_or_else(missing)?,
        })
    }

    /// Creates the harness with the other method, where the server's own is MERGE.
    pub(crate) async fn forced() -> Result<Self, Missing> {
        let harness = Self::made_for()?;
        let version = harness.version().await;
        let version = version.map_err(|error| Missing::new(error.to_string()))?;
        if !version.starts_with("Microsoft SQL ") {
            return Err(Missing::new("the server has no MERGE, so `mssql` is it"));
        }
        Ok(Self {
            name: "mssql-insert",
            method: ClaimMethod::InsertWhereNotExists,
            ..harness
        })
    }

    /// Creates the harness for connections that begin with hostile settings.
    pub(crate) fn hostile() -> Result<Self, Missing> {
        Ok(Self {
            name: "mssql-hostile",
            ..Self::made_for()?
        })
    }

    /// Creates the harness of this name.
    pub(crate) fn of(name: &str) -> Result<Self, Missing> {
        let harness = Self::made_for()?;
        Ok(match name {
            "mssql-insert" => Self {
                name: "mssql-insert",
                method: ClaimMethod::InsertWhereNotExists,
                ..harness
            },
            "mssql-hostile" => Self::hostile()?,
            _ => harness,
        })
    }

    fn is_hostile(&self) -> bool {
        self.name == "mssql-hostile"
    }

    async fn version(&self) -> Result<String, BoxError> {
        let mut connection = self.manager()?.connect().await?;
        let results = connection.run_script("SELECT @@VERSION;").await?;
        let row = results.first().and_then(|rows| rows.first());
        let version = row.and_then(|row| row.get::<&str, usize>(0));
        Ok(version.unwrap_or_default().to_owned())
    }

    /// Returns a manager that opens connections as the store does.
    pub(crate) fn manager(&self) -> Result<Manager, BoxError> {
        Ok(Manager::from_url(&self.url)?)
    }

    /// Returns the configuration of a namespace's store.
    pub(crate) fn config(&self, namespace: &str) -> Result<Config, BoxError> {
        Ok(Config::new()
            .with_table(namespace)?
            .with_claim_method(self.method))
    }

    fn pool(&self, namespace: &str) -> Result<Pool, BoxError> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(namespace) {
            return Ok(pool.clone());
        }
        let pool = match self.is_hostile() {
            true => self.hostile_pool(12)?,
            false => Pool::builder(self.manager()?).max_size(12).build()?,
        };
        pools.insert(namespace.to_owned(), pool.clone());
        Ok(pool)
    }

    /// Returns a pool whose connections get hostile settings after they were opened.
    pub(crate) fn hostile_pool(&self, max: usize) -> Result<Pool, BoxError> {
        let hostile = Hook::async_fn(|connection: &mut Connection, _| {
            Box::pin(async move {
                let set = connection.run_script(HOSTILE).await;
                set.map(drop).map_err(HookError::Backend)
            })
        });
        let pool = Pool::builder(self.manager()?).max_size(max);
        Ok(pool.post_create(hostile).build()?)
    }

    /// Opens a store of the concrete type.
    pub(crate) fn store(&self, namespace: &str) -> Result<MssqlStore, BoxError> {
        let pool = self.pool(namespace)?;
        Ok(MssqlStore::with_config(pool, self.config(namespace)?))
    }

    /// Opens the same with its own pool of `max` connections.
    pub(crate) fn store_with(&self, max: usize, namespace: &str) -> Result<MssqlStore, BoxError> {
        let pool = Pool::builder(self.manager()?).max_size(max).build()?;
        Ok(MssqlStore::with_config(pool, self.config(namespace)?))
    }

    /// Opens the same as another user, with a pool of its own.
    pub(crate) fn store_as(
        &self,
        user: &str,
        password: &str,
        namespace: &str,
    ) -> Result<MssqlStore, BoxError> {
        let mut url = Url::parse(&self.url)?;
        let taken = url.set_username(user);
        taken
            .and_then(|()| url.set_password(Some(password)))
            .map_err(|()| "no user in the URL")?;
        let manager = Manager::from_url(url.as_str())?;
        let pool = Pool::builder(manager).max_size(2).build()?;
        Ok(MssqlStore::with_config(pool, self.config(namespace)?))
    }

    /// Runs a script of the tests' own; returns all rows of all results.
    pub(crate) async fn run(&self, namespace: &str, sql: &str) -> Result<Vec<Row>, BoxError> {
        let pool = match self.is_hostile() {
            true => Pool::builder(self.manager()?).max_size(1).build()?,
            false => self.pool(namespace)?,
        };
        let mut connection = pool.get().await?;
        Ok(connection
            .run_script(sql)
            .await?
            .into_iter()
            .flatten()
            .collect())
    }
}

/// An open transaction of a caller.
struct Open {
    store: MssqlStore,
    transaction: Transaction,
}

#[async_trait]
impl CallerTransaction for Open {
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome, Error> {
        self.store.claim_in(&mut self.transaction, request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<(), Error> {
        self.store
            .complete_in(&mut self.transaction, claim, response, retention)
            .await
    }

    async fn commit(self: Box<Self>) -> Result<(), BoxError> {
        Ok(self.transaction.commit().await?)
    }

    async fn rollback(self: Box<Self>) -> Result<(), BoxError> {
        Ok(self.transaction.rollback().await?)
    }
}

/// Returns the harness of a case.
pub(crate) fn harness(cx: &Context) -> Result<MssqlHarness, CaseError> {
    MssqlHarness::of(cx.harness().name()).map_err(|missing| CaseError::new(missing.to_string()))
}

#[async_trait]
impl Harness for MssqlHarness {
    fn name(&self) -> &str {
        self.name
    }

    fn profile(&self) -> Profile {
        let core = Profile::new()
            .batch()
            .checkpoints()
            .watermarks()
            .transactions()
            .row_locks()
            .with_shortest_lease(Duration::from_millis(150));
        if self.is_hostile() {
            return core;
        }
        core.shared_between_processes()
            .durable()
            .password()
            .server_clock()
            .network()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let version = self.version().await?;
        let (product, rest) = version.split_once(" - ").unwrap_or((&version, ""));
        let number = rest.split_whitespace().next().unwrap_or_default();
        let product = match self.method {
            ClaimMethod::InsertWhereNotExists => format!("{product}, without MERGE"),
            _ => product.to_owned(),
        };
        Ok(Product::new(product, number))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        let namespace = format!("idem_test_{random:032x}");
        self.store(&namespace)?.migrate().await?;
        Ok(namespace)
    }

    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let manager = Manager::from_url(&with_password(&self.url, "idem", password))?;
        let pool = Pool::builder(manager).build()?;
        let store = MssqlStore::with_config(pool, self.config(namespace)?);
        Ok(Some(Arc::new(store)))
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.store(namespace)?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let drop: String = ["", "_watermarks", "_version", "_payments"]
            .map(|suffix| format!("DROP TABLE IF EXISTS [{namespace}{suffix}];\n"))
            .concat();
        let dropped = self.run(namespace, &drop).await.map(|_| ());
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.remove(namespace) {
            pool.close();
        }
        dropped
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(self.store(namespace)?)))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let store = self.store(namespace)?;
        // On its own connection, so that the store's callers do not wait for it.
        let manager = match self.is_hostile() {
            true => self.hostile_pool(1)?,
            false => Pool::builder(self.manager()?).max_size(1).build()?,
        };
        let transaction = Transaction::begin(&manager, Isolation::ReadCommitted).await?;
        Ok(Some(Box::new(Open { store, transaction })))
    }

    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let mut url = Url::parse(&self.url)?;
        url.set_host(Some(&address.ip().to_string()))?;
        url.set_port(Some(address.port()))
            .map_err(|()| "no port in the URL")?;
        let pool = Pool::builder(Manager::from_url(url.as_str())?).build()?;
        let config = self.config(namespace)?;
        Ok(Some(Arc::new(MssqlStore::with_config(pool, config))))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        let url = Url::parse(&self.url).ok()?;
        let host = url.host_str()?.trim_matches(['[', ']']);
        (host, url.port().unwrap_or(1433))
            .to_socket_addrs()
            .ok()?
            .next()
    }
}
