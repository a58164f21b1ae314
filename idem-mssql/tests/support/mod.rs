//! Access of the tests to a T-SQL server.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idem_conformance::{CallerTransaction, CaseError, Context, Missing, Profile};
use idem_core::{BoxError, async_trait};
use idem_mssql::deadpool::managed::{Hook, HookError};
use idem_mssql::tiberius::Row;
use idem_mssql::{
    ClaimMethod, Config, Connection, Isolation, Manager, MssqlStore, Pool, Transaction,
};
use idem_stores::{Adapter, Begun, ServerUrl, Suite, found};
use url::Url;

/// A server, and the claim method on it. Each namespace is a table of that name, with the tables
/// beside it.
#[derive(Debug, Clone)]
pub(crate) struct MssqlHarness {
    name: &'static str,
    method: ClaimMethod,
    url: ServerUrl,
}

/// Settings that a server, a database, a login, or the connection's former user may leave. Above
/// READ COMMITTED, Babelfish has only SNAPSHOT by default.
const HOSTILE: &str = "SET XACT_ABORT ON; SET LOCK_TIMEOUT 0; SET ROWCOUNT 1; SET NOCOUNT ON;
SET DATEFORMAT dmy; SET ANSI_WARNINGS ON; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SET IMPLICIT_TRANSACTIONS ON;";

/// Connecting may cost a third of a second, so the handles of a namespace share a pool. A namespace
/// belongs to one case, and a case to one runtime.
static POOLS: Mutex<BTreeMap<Handles, Pool>> = Mutex::new(BTreeMap::new());

/// A namespace, and the URL of its stores.
type Handles = (String, String);

impl MssqlHarness {
    /// Creates the harness with the server's own claim method.
    pub(crate) fn made_for() -> Result<Self, Missing> {
        Ok(Self {
            name: "mssql",
            method: ClaimMethod::Auto,
            url: found("mssql")?,
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
        Ok(Manager::from_url(self.url.as_str())?)
    }

    /// Returns the configuration of a namespace's store.
    pub(crate) fn config(&self, namespace: &str) -> Result<Config, BoxError> {
        Ok(Config::new()
            .with_table(namespace)?
            .with_claim_method(self.method))
    }

    fn pool(&self, namespace: &str) -> Result<Pool, BoxError> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = (namespace.to_owned(), self.url.as_str().to_owned());
        if let Some(pool) = pools.get(&handles) {
            return Ok(pool.clone());
        }
        let pool = match self.is_hostile() {
            true => self.hostile_pool(12)?,
            false => Pool::builder(self.manager()?).max_size(12).build()?,
        };
        pools.insert(handles, pool.clone());
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
        let mut url = Url::parse(self.url.as_str())?;
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

/// Returns the harness of a case.
pub(crate) fn harness(cx: &Context) -> Result<MssqlHarness, CaseError> {
    MssqlHarness::of(cx.harness().name()).map_err(|missing| CaseError::new(missing.to_string()))
}

/// Creates the target on this server.
pub(crate) async fn target(server: MssqlHarness) -> Result<Suite<MssqlHarness>, Missing> {
    let core = Profile::new()
        .batch()
        .checkpoints()
        .watermarks()
        .admin()
        .transactions()
        .row_locks()
        .with_shortest_lease(Duration::from_millis(150));
    let profile = match server.is_hostile() {
        true => core,
        false => core
            .shared_between_processes()
            .durable()
            .password()
            .server_clock()
            .network(),
    };
    let reported = match server.method {
        ClaimMethod::InsertWhereNotExists => Some(server.product().await),
        _ => None,
    };
    let suite = Suite::new(server.name, server, profile);
    Ok(match reported.transpose() {
        Ok(Some((product, _))) => suite.with_product(format!("{product}, without MERGE")),
        Ok(None) => suite,
        Err(error) => return Err(Missing::new(error.to_string())),
    })
}

#[async_trait]
impl Adapter for MssqlHarness {
    type Store = MssqlStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        let version = self.version().await?;
        let (product, rest) = version.split_once(" - ").unwrap_or((&version, ""));
        let number = rest.split_whitespace().next().unwrap_or_default();
        Ok((product.to_owned(), number.to_owned()))
    }

    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        Ok(Self::store(self, namespace)?.migrate().await?)
    }

    async fn store(&self, namespace: &str) -> Result<MssqlStore, BoxError> {
        Self::store(self, namespace)
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let drop: String = ["", "_watermarks", "_version", "_payments"]
            .map(|suffix| format!("DROP TABLE IF EXISTS [{namespace}{suffix}];\n"))
            .concat();
        let dropped = self.run(namespace, &drop).await.map(|_| ());
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|(of, _), pool| {
            let others = of != namespace;
            if !others {
                pool.close();
            }
            others
        });
        dropped
    }

    fn url(&self) -> Option<&ServerUrl> {
        Some(&self.url)
    }

    fn with_url(mut self, url: ServerUrl) -> Self {
        self.url = url;
        self
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let store = Self::store(self, namespace)?;
        // On its own connection, so that the store's callers do not wait for it.
        let manager = match self.is_hostile() {
            true => self.hostile_pool(1)?,
            false => Pool::builder(self.manager()?).max_size(1).build()?,
        };
        let transaction = Transaction::begin(&manager, Isolation::ReadCommitted).await?;
        Ok(Some(Box::new(Begun { store, transaction })))
    }
}
