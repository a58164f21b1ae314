//! MySQL and MariaDB.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
#[cfg(feature = "suite")]
use idem_conformance::CallerTransaction;
use idem_core::{AttemptId, BoxError};
use idem_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use idem_mysql::sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row, raw_sql};
use idem_mysql::{Config, MySqlStore, schema_sql};

use crate::adapter::First;
use crate::{Adapter, ServerUrl};

/// A server, or the nodes of a Galera cluster, of which each connection takes the next. Each
/// namespace is a database.
#[derive(Debug, Clone)]
pub struct MySql {
    url: ServerUrl,
    config: Config,
    pool: Option<u32>,
    login: Option<&'static str>,
    next: Arc<AtomicUsize>,
    first: First,
}

impl MySql {
    /// Creates the adapter of the server, or the nodes, at this URL.
    pub fn new(url: impl Into<ServerUrl>) -> Self {
        // Each process begins with another node.
        let first = AttemptId::random().as_bytes()[0];
        Self {
            url: url.into(),
            config: Config::new(),
            pool: None,
            login: None,
            next: Arc::new(AtomicUsize::new(usize::from(first))),
            first: First::default(),
        }
    }

    /// Opens stores with this configuration, in the namespace's database.
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Lets every statement of a store wait for the earlier commits of other nodes.
    #[must_use]
    pub fn with_causal_reads(mut self) -> Self {
        self.config = self.config.with_wsrep_sync_wait(7);
        self
    }

    /// Opens each store on a pool of the caller with at most so many connections. Default: on the
    /// store's own connections.
    #[must_use]
    pub fn with_pool(mut self, max: u32) -> Self {
        self.pool = Some(max);
        self
    }

    /// Opens stores for another user, whose password is its name. The URL's user makes its
    /// databases.
    #[must_use]
    pub fn with_login(mut self, user: &'static str) -> Self {
        self.login = Some(user);
        self
    }

    /// Returns the configuration of a namespace's store.
    ///
    /// # Errors
    ///
    /// An error when this cannot be the name of a database.
    pub fn config(&self, namespace: &str) -> Result<Config, BoxError> {
        Ok(self.config.clone().with_database(namespace)?)
    }

    /// Returns the options for connections beside the store's, to another node each time.
    ///
    /// # Errors
    ///
    /// An error when the URL cannot be read.
    pub fn options(&self) -> Result<MySqlConnectOptions, BoxError> {
        let nodes = self.url.nodes();
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(MySqlConnectOptions::from_str(nodes[next % nodes.len()])?)
    }

    /// Connects beside the store.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn connect(&self) -> Result<MySqlConnection, BoxError> {
        Ok(self.options()?.connect().await?)
    }

    /// Runs a script beside the store, as one simple query.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn execute(&self, sql: String) -> Result<(), BoxError> {
        let mut connection = self.connect().await?;
        raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        Ok(connection.close().await?)
    }
}

#[async_trait]
impl Adapter for MySql {
    type Store = MySqlStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        let mut connection = self.connect().await?;
        let row = raw_sql("SELECT VERSION()")
            .fetch_one(&mut connection)
            .await?;
        let version: String = row.try_get(0)?;
        let number = version.split('-').next().unwrap_or_default();
        let product = match version.contains("MariaDB") {
            true => "MariaDB",
            false => "MySQL",
        };
        Ok((product.to_owned(), number.to_owned()))
    }

    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        if self.first.is_this() {
            if self.login.is_some() {
                self.execute(format!("CREATE DATABASE `{namespace}`"))
                    .await?;
            }
            let store = self.store(namespace).await?;
            store.migrate().await?;
            store.pool().close().await;
        } else {
            self.execute(schema_sql(&self.config(namespace)?)).await?;
        }
        // A statement is prepared before its node waits for the others' commits.
        let nodes = self.url.nodes();
        for _ in nodes.iter().filter(|_| nodes.len() > 1) {
            let store = self.store(namespace).await?;
            store.verify().await?;
            store.pool().close().await;
        }
        Ok(())
    }

    async fn store(&self, namespace: &str) -> Result<MySqlStore, BoxError> {
        let config = self.config(namespace)?;
        let mut options = self.options()?;
        if let Some(user) = self.login {
            options = options.username(user).password(user);
        }
        let Some(max) = self.pool else {
            let url = options.to_url_lossy();
            return Ok(MySqlStore::connect(url.as_str(), config).await?);
        };
        let sync_wait = config.wsrep_sync_wait();
        let pool = MySqlPoolOptions::new()
            .max_connections(max)
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if let Some(bits) = sync_wait {
                        let set = format!("SET SESSION wsrep_sync_wait = {bits}");
                        connection.execute(AssertSqlSafe(set)).await?;
                    }
                    Ok(())
                })
            })
            .connect_lazy_with(options);
        Ok(MySqlStore::with_config(pool, config))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.execute(format!("DROP DATABASE IF EXISTS `{namespace}`"))
            .await
    }

    fn url(&self) -> Option<&ServerUrl> {
        Some(&self.url)
    }

    fn with_url(mut self, url: ServerUrl) -> Self {
        self.url = url;
        self
    }

    #[cfg(feature = "suite")]
    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let store = self.store(namespace).await?;
        let mut attempts = idem_mysql::Transactions::new(&store).attempts();
        let transaction = attempts.begin().await?;
        Ok(Some(Box::new(crate::Begun { store, transaction })))
    }
}

#[cfg(feature = "suite")]
crate::suite::caller_transaction!(MySqlStore, idem_mysql::Transaction, commit, rollback);
