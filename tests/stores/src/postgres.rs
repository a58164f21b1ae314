//! PostgreSQL.

use std::str::FromStr;

use async_trait::async_trait;
#[cfg(feature = "suite")]
use idem_conformance::CallerTransaction;
use idem_core::BoxError;
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idem_postgres::sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row, raw_sql};
use idem_postgres::{Config, PostgresStore, StatementMode, schema_sql};

use crate::adapter::First;
use crate::{Adapter, ServerUrl};

/// A server, or a pooler in front of one. Each namespace is a schema.
#[derive(Debug, Clone)]
pub struct Postgres {
    url: ServerUrl,
    config: Config,
    pool: Option<u32>,
    first: First,
}

impl Postgres {
    /// Creates the adapter of the server at this URL.
    pub fn new(url: impl Into<ServerUrl>) -> Self {
        Self {
            url: url.into(),
            config: Config::new(),
            pool: None,
            first: First::default(),
        }
    }

    /// Opens stores with this configuration, in the namespace's schema.
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Opens each store on a pool of the caller with at most so many connections. Default: on the
    /// store's own connections.
    #[must_use]
    pub fn with_pool(mut self, max: u32) -> Self {
        self.pool = Some(max);
        self
    }

    /// Returns the configuration of a namespace's store.
    ///
    /// # Errors
    ///
    /// An error when this cannot be the name of a schema.
    pub fn config(&self, namespace: &str) -> Result<Config, BoxError> {
        Ok(self.config.clone().with_schema(namespace)?)
    }

    /// Returns how stores send their statements.
    #[must_use]
    pub fn mode(&self) -> StatementMode {
        self.config.statement_mode()
    }

    /// Returns the driver's options for connections beside the store's.
    ///
    /// # Errors
    ///
    /// An error when the URL cannot be read.
    pub fn driver_options(&self) -> Result<PgConnectOptions, BoxError> {
        Ok(PgConnectOptions::from_str(self.url.as_str())?)
    }

    /// Returns options that also suit a pooler.
    ///
    /// # Errors
    ///
    /// An error when the URL cannot be read.
    pub fn options(&self) -> Result<PgConnectOptions, BoxError> {
        let options = self.driver_options()?.extra_float_digits(None);
        Ok(options.statement_cache_capacity(0))
    }

    /// Connects beside the store.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn connect(&self) -> Result<PgConnection, BoxError> {
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
impl Adapter for Postgres {
    type Store = PostgresStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        let mut connection = self.connect().await?;
        let row = raw_sql("SHOW server_version")
            .fetch_one(&mut connection)
            .await?;
        let version: String = row.try_get(0)?;
        let number = version.split(' ').next().unwrap_or_default();
        Ok(("PostgreSQL".to_owned(), number.to_owned()))
    }

    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        if !self.first.is_this() {
            return self.execute(schema_sql(&self.config(namespace)?)).await;
        }
        let store = self.store(namespace).await?;
        store.migrate().await?;
        store.verify().await?;
        store.pool().close().await;
        Ok(())
    }

    async fn store(&self, namespace: &str) -> Result<PostgresStore, BoxError> {
        let config = self.config(namespace)?;
        let Some(max) = self.pool else {
            return Ok(PostgresStore::connect(self.url.as_str(), config).await?);
        };
        let pool = PgPoolOptions::new()
            .max_connections(max)
            .test_before_acquire(false)
            .connect_lazy_with(self.driver_options()?.extra_float_digits(None));
        Ok(PostgresStore::with_config(pool, config))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        // It waits for transactions of dead clients, whatever the server's default.
        self.execute(format!(
            "SET LOCAL lock_timeout = '30s'; SET LOCAL client_min_messages = warning;
            DROP SCHEMA IF EXISTS \"{namespace}\" CASCADE"
        ))
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
        let mut attempts = idem_postgres::Transactions::new(&store).attempts();
        let transaction = attempts.begin().await?;
        Ok(Some(Box::new(crate::Begun { store, transaction })))
    }
}

#[cfg(feature = "suite")]
crate::suite::caller_transaction!(PostgresStore, idem_postgres::Transaction, commit, rollback);
