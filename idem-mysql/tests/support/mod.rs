//! Access of the tests to MariaDB, MySQL and a Galera cluster.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idem_conformance::{
    CallerTransaction, CaseError, Context, Harness, Missing, Product, Profile, with_password,
};
use idem_core::{
    AttemptId, BatchStore, BoxError, Claim, ClaimOutcome, ClaimRequest, IdempotencyStore, Response,
    async_trait,
};
use idem_mysql::{Config, MySqlStore, Transaction, Transactions};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};

/// Every statement waits for the earlier commits of other nodes.
const CAUSAL: u8 = 7;

/// A server, or the nodes of a cluster. Each namespace is a database.
pub(crate) struct MySqlHarness {
    name: &'static str,
    /// Whether claims insert first, where this is fixed.
    inserts_first: Option<bool>,
    product: &'static str,
    /// Whether the sessions of stores begin with hostile settings.
    is_hostile: bool,
    urls: Vec<String>,
    next: AtomicUsize,
}

impl MySqlHarness {
    /// Creates the harness of this name.
    pub(crate) fn of(name: &str) -> Result<Self, Missing> {
        let (name, server, product) = match name {
            "mysql" => ("mysql", "mysql", "MySQL"),
            "mysql-insert-first" => ("mysql-insert-first", "mysql", "MySQL"),
            "mysql-hostile" => ("mysql-hostile", "mysql", "MySQL"),
            "mariadb-insert-first" => ("mariadb-insert-first", "mariadb", "MariaDB"),
            "mariadb-hostile" => ("mariadb-hostile", "mariadb", "MariaDB"),
            "galera" => ("galera", "galera", "MariaDB Galera, three nodes"),
            "galera-node" => ("galera-node", "galera", "MariaDB Galera, one node"),
            _ => ("mariadb", "mariadb", "MariaDB"),
        };
        let inserts_first = name.ends_with("-insert-first").then_some(true);
        let missing = || Missing::new(idem_servers::missing_reason(server));
        let urls = idem_servers::url_for(server).ok_or_else(missing)?;
        let nodes = match name {
            "galera-node" => 1,
            _ => usize::MAX,
        };
        Ok(Self {
            name,
            inserts_first,
            product,
            is_hostile: name.ends_with("-hostile"),
            urls: urls.split(',').take(nodes).map(str::to_owned).collect(),
            next: AtomicUsize::new(rand::random_range(0..1000)),
        })
    }

    /// Creates the harness for stores whose sessions begin with settings that change the meaning or
    /// the course of statements: those that `init_connect` sets for the user [`HOSTILE_USER`].
    pub(crate) async fn hostile(name: &str) -> Result<Self, Missing> {
        let harness = Self::of(name)?;
        let set = harness.set_hostile().await;
        set.map_err(|error| Missing::new(format!("no hostile settings: {error}")))?;
        Ok(harness)
    }

    /// Creates the user and its settings, unless the server's owner has an `init_connect`.
    async fn set_hostile(&self) -> Result<(), BoxError> {
        let mut connection = MySqlConnection::connect_with(&self.options()?).await?;
        let row = sqlx::raw_sql("SELECT CAST(@@GLOBAL.init_connect AS CHAR)")
            .fetch_one(&mut connection)
            .await?;
        let there: Option<String> = row.try_get(0)?;
        let there = there.unwrap_or_default();
        if !there.is_empty() && !there.contains(HOSTILE_USER) {
            return Err("the server has an init_connect of its own".into());
        }
        connection.close().await?;
        self.execute(hostile_settings(self.product)).await
    }

    /// Returns another node each time.
    fn url(&self) -> &str {
        &self.urls[self.next.fetch_add(1, Ordering::Relaxed) % self.urls.len()]
    }

    /// Returns the options for the tests' own connections.
    pub(crate) fn options(&self) -> Result<MySqlConnectOptions, BoxError> {
        Ok(MySqlConnectOptions::from_str(self.url())?)
    }

    fn config(&self, namespace: &str) -> Result<Config, BoxError> {
        let config = Config::new().with_database(namespace)?;
        let config = match self.inserts_first {
            Some(inserts_first) => config.with_inserts_first(inserts_first),
            None => config,
        };
        Ok(if self.name == "galera" {
            config.with_wsrep_sync_wait(CAUSAL)
        } else {
            config
        })
    }

    /// Opens a store of the concrete type.
    pub(crate) async fn store(&self, namespace: &str) -> Result<MySqlStore, BoxError> {
        let mut url = self.url().to_owned();
        if self.is_hostile {
            let options = self
                .options()?
                .username(HOSTILE_USER)
                .password(HOSTILE_USER);
            url = options.to_url_lossy().into();
        }
        Ok(MySqlStore::connect(&url, self.config(namespace)?).await?)
    }

    /// Opens the same, whose claims send this statement first.
    pub(crate) async fn store_in_order(
        &self,
        namespace: &str,
        inserts_first: bool,
    ) -> Result<MySqlStore, BoxError> {
        let config = self.config(namespace)?;
        let config = config.with_inserts_first(inserts_first);
        Ok(MySqlStore::connect(self.url(), config).await?)
    }

    /// Opens a store on a pool with these options that this crate has not set up.
    pub(crate) async fn store_with(
        &self,
        pool: MySqlPoolOptions,
        options: MySqlConnectOptions,
        namespace: &str,
    ) -> Result<MySqlStore, BoxError> {
        let pool = pool.connect_with(options).await?;
        Ok(MySqlStore::with_config(pool, self.config(namespace)?))
    }

    /// Opens a store that reaches the server at this address: MySQL on its own connections, the
    /// others on a caller's pool.
    async fn store_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<MySqlStore, BoxError> {
        let config = self.config(namespace)?;
        let options = self
            .options()?
            .host(&address.ip().to_string())
            .port(address.port());
        if self.name == "mysql" {
            let url = options.to_url_lossy();
            return Ok(MySqlStore::connect(url.as_str(), config).await?);
        }
        let causal = self.name == "galera";
        let pool = MySqlPoolOptions::new()
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if causal {
                        let setting = format!("SET SESSION wsrep_sync_wait = {CAUSAL}");
                        connection.execute(AssertSqlSafe(setting)).await?;
                    }
                    Ok(())
                })
            })
            .connect_lazy_with(options);
        Ok(MySqlStore::with_config(pool, config))
    }

    /// Runs the tests' own statements, as one simple query each.
    pub(crate) async fn execute(&self, sql: String) -> Result<(), BoxError> {
        let mut connection = MySqlConnection::connect_with(&self.options()?).await?;
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut connection)
            .await?;
        Ok(connection.close().await?)
    }
}

/// A user without the privilege that passes over `init_connect`. It stays on the server.
const HOSTILE_USER: &str = "hostile";

/// Settings of a session. The last one changes how the others would be read.
const HOSTILE: &[(&str, &str)] = &[
    ("autocommit", "0"),
    ("completion_type", "'CHAIN'"),
    ("sql_select_limit", "1"),
    ("sql_safe_updates", "1"),
    ("sql_auto_is_null", "1"),
    ("unique_checks", "0"),
    ("foreign_key_checks", "0"),
    ("wait_timeout", "20"),
    ("lock_wait_timeout", "1"),
    ("innodb_lock_wait_timeout", "1"),
    ("group_concat_max_len", "4"),
    ("div_precision_increment", "0"),
    ("auto_increment_increment", "7"),
    ("max_join_size", "100000"),
    ("time_zone", "'-11:30'"),
    ("character_set_connection", "'latin1'"),
    ("collation_connection", "'latin1_swedish_ci'"),
];

/// Returns the statements that create the user and its settings. All users without SUPER run
/// `init_connect`; for others than this one it keeps the settings.
fn hostile_settings(product: &str) -> String {
    let own = match product {
        "MySQL" => [
            ("transaction_isolation", "'SERIALIZABLE'"),
            ("transaction_read_only", "1"),
            (
                "sql_mode",
                "'ANSI,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH'",
            ),
        ],
        _ => [
            ("tx_isolation", "'SERIALIZABLE'"),
            ("tx_read_only", "1"),
            (
                "sql_mode",
                "'ORACLE,EMPTY_STRING_IS_NULL,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
            ),
        ],
    };
    let init: String = HOSTILE
        .iter()
        .chain(&own)
        .map(|(name, value)| {
            let set = format!("IF(USER() LIKE '{HOSTILE_USER}@%', {value}, @@SESSION.{name})");
            match value.starts_with('\'') {
                true => format!("SET SESSION {name} = {set};"),
                false => format!("SET SESSION {name} = CAST({set} AS UNSIGNED);"),
            }
        })
        .collect();
    format!(
        "CREATE USER IF NOT EXISTS {HOSTILE_USER}@'%' IDENTIFIED BY '{HOSTILE_USER}';
        GRANT SELECT ON idem.* TO {HOSTILE_USER}@'%';
        GRANT ALL ON `idem\\_test\\_%`.* TO {HOSTILE_USER}@'%';
        SET GLOBAL init_connect = '{}'",
        init.replace('\'', "''")
    )
}

struct InTransaction {
    store: MySqlStore,
    transaction: Transaction,
}

#[async_trait]
impl CallerTransaction for InTransaction {
    async fn claim(&mut self, request: &ClaimRequest) -> idem_core::Result<ClaimOutcome> {
        self.store.claim_in(&mut self.transaction, request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> idem_core::Result<()> {
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
pub(crate) fn harness(cx: &Context) -> Result<MySqlHarness, CaseError> {
    MySqlHarness::of(cx.harness().name()).map_err(|missing| CaseError::new(missing.to_string()))
}

#[async_trait]
impl Harness for MySqlHarness {
    fn name(&self) -> &str {
        self.name
    }

    fn profile(&self) -> Profile {
        let core = Profile::new().batch().checkpoints().watermarks();
        if self.is_hostile {
            return core.transactions().row_locks();
        }
        let profile = core
            .shared_between_processes()
            .durable()
            .password()
            .server_clock()
            .network();
        // A node locks nothing on another: there a claim wins, and the open transaction fails to
        // commit.
        match self.name {
            "galera" => profile,
            _ => profile.transactions().row_locks(),
        }
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let mut connection = MySqlConnection::connect_with(&self.options()?).await?;
        let row = sqlx::raw_sql("SELECT VERSION()")
            .fetch_one(&mut connection)
            .await?;
        let version: String = row.try_get(0)?;
        let number = version.split('-').next().unwrap_or_default();
        let is_mariadb = version.contains("MariaDB");
        if is_mariadb != (self.product != "MySQL") {
            return Err(format!("this is not {}: {version}", self.product).into());
        }
        Ok(Product::new(self.product, number))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        let namespace = format!("idem_test_{random:032x}");
        if self.is_hostile {
            let database = format!("CREATE DATABASE `{namespace}`");
            self.execute(database).await?;
        }
        let store = self.store(&namespace).await?;
        store.migrate().await?;
        store.verify().await?;
        store.pool().close().await;
        // A statement is prepared before its node waits for the others' commits.
        for url in &self.urls {
            let store = MySqlStore::connect(url, self.config(&namespace)?).await?;
            store.verify().await?;
            store.pool().close().await;
        }
        Ok(namespace)
    }

    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let url = with_password(self.url(), "idem", password);
        let store = MySqlStore::connect(&url, self.config(namespace)?).await?;
        Ok(Some(Arc::new(store)))
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.store(namespace).await?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.execute(format!("DROP DATABASE IF EXISTS `{namespace}`"))
            .await
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(self.store(namespace).await?)))
    }

    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        Ok(Some(Arc::new(
            self.store_through(namespace, address).await?,
        )))
    }

    async fn open_batch_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(
            self.store_through(namespace, address).await?,
        )))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let store = self.store(namespace).await?;
        let mut attempts = Transactions::new(store.pool().clone()).attempts();
        let transaction = attempts.begin().await?;
        Ok(Some(Box::new(InTransaction { store, transaction })))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        let options = self.options().ok()?;
        (options.get_host(), options.get_port())
            .to_socket_addrs()
            .ok()?
            .next()
    }
}
