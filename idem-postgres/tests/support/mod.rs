//! Access of the tests to PostgreSQL.

use std::collections::HashSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{
    CallerTransaction, CaseError, Context, Harness, Missing, Product, Profile, with_password,
};
use idem_core::{
    AttemptId, BatchStore, BoxError, Claim, ClaimOutcome, ClaimRequest, Error, ErrorKind,
    IdempotencyStore, Response, async_trait,
};
use idem_postgres::{Config, PostgresStore, StatementMode};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgTransaction, Row};

/// A server, and the way to send statements to it. Each namespace is a schema.
pub(crate) struct PostgresHarness {
    name: &'static str,
    product: &'static str,
    url: String,
    mode: StatementMode,
}

impl PostgresHarness {
    /// Creates the harness for the server itself.
    pub(crate) fn direct() -> Result<Self, Missing> {
        Self::at("postgres", "PostgreSQL", StatementMode::Prepared)
    }

    /// Creates the harness for the server behind PgBouncer in transaction mode.
    pub(crate) fn pooled() -> Result<Self, Missing> {
        let product = "PostgreSQL behind PgBouncer";
        Self::at("pgbouncer", product, StatementMode::Unprepared)
    }

    /// Creates the harness for a database of the server whose defaults change the meaning or the
    /// course of statements.
    pub(crate) async fn hostile() -> Result<Self, Missing> {
        let direct = Self::direct()?;
        let made = make_hostile_database(&direct).await;
        made.map_err(|error| Missing::new(format!("no hostile database: {error}")))?;
        Self::hostile_on(&direct)
    }

    /// Creates the harness for the database that [`hostile`](Self::hostile) has made.
    fn hostile_on(direct: &Self) -> Result<Self, Missing> {
        let options = PgConnectOptions::from_str(&direct.url);
        let options = options.map_err(|error| Missing::new(error.to_string()))?;
        Ok(Self {
            name: "postgres-hostile",
            url: options.database(HOSTILE_DATABASE).to_url_lossy().into(),
            ..Self::direct()?
        })
    }

    /// Creates the harness of this name.
    pub(crate) fn of(name: &str) -> Result<Self, Missing> {
        match name {
            "pgbouncer" => Self::pooled(),
            "postgres-hostile" => Self::hostile_on(&Self::direct()?),
            _ => Self::direct(),
        }
    }

    fn at(name: &'static str, product: &'static str, mode: StatementMode) -> Result<Self, Missing> {
        let missing = || Missing::new(idem_servers::missing_reason(name));
        let url = idem_servers::url_for(name).ok_or_else(missing)?;
        Ok(Self {
            name,
            product,
            url,
            mode,
        })
    }

    /// Returns the options for the tests' own connections.
    pub(crate) fn options(&self) -> Result<PgConnectOptions, BoxError> {
        Ok(PgConnectOptions::from_str(&self.url)?
            .extra_float_digits(None)
            .statement_cache_capacity(0))
    }

    fn config(&self, namespace: &str) -> Result<Config, BoxError> {
        Ok(Config::new()
            .with_schema(namespace)?
            .with_statement_mode(self.mode))
    }

    /// Opens a store of the concrete type.
    pub(crate) async fn store(&self, namespace: &str) -> Result<PostgresStore, BoxError> {
        Ok(PostgresStore::connect(&self.url, self.config(namespace)?).await?)
    }

    /// Returns how statements are sent.
    pub(crate) fn mode(&self) -> StatementMode {
        self.mode
    }

    /// Opens the same for another role.
    pub(crate) async fn store_as(
        &self,
        role: &str,
        namespace: &str,
    ) -> Result<PostgresStore, BoxError> {
        let pool = PgPoolOptions::new()
            .connect_with(self.options()?.username(role))
            .await?;
        Ok(PostgresStore::with_config(pool, self.config(namespace)?))
    }

    /// Returns the server's URL with a default of the session.
    pub(crate) fn url_with(&self, name: &str, value: &str) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{separator}options[{name}]={value}", self.url)
    }

    /// Opens the same with a default of the session.
    pub(crate) async fn store_under(
        &self,
        name: &str,
        value: &str,
        namespace: &str,
    ) -> Result<PostgresStore, BoxError> {
        let options = self.options()?.options([(name, value)]);
        let pool = PgPoolOptions::new().connect_with(options).await?;
        Ok(PostgresStore::with_config(pool, self.config(namespace)?))
    }

    /// Opens the same with this number of connections.
    pub(crate) async fn store_with(
        &self,
        max: u32,
        namespace: &str,
    ) -> Result<PostgresStore, BoxError> {
        let pool = PgPoolOptions::new()
            .max_connections(max)
            .connect_with(self.options()?)
            .await?;
        Ok(PostgresStore::with_config(pool, self.config(namespace)?))
    }

    /// Opens a store that reaches the server at this address: directly on its own connections,
    /// behind the pooler on a caller's pool.
    async fn store_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<PostgresStore, BoxError> {
        let config = self.config(namespace)?;
        let host = address.ip().to_string();
        if self.mode == StatementMode::Unprepared {
            let options = self.options()?.host(&host).port(address.port());
            let pool = PgPoolOptions::new()
                .test_before_acquire(false)
                .connect_lazy_with(options);
            return Ok(PostgresStore::with_config(pool, config));
        }
        let options = PgConnectOptions::from_str(&self.url)?;
        let options = options.host(&host).port(address.port());
        let url = options.to_url_lossy();
        Ok(PostgresStore::connect(url.as_str(), config).await?)
    }

    /// Runs the tests' own statements, as one simple query each.
    pub(crate) async fn execute(&self, sql: String) -> Result<(), BoxError> {
        let mut connection = PgConnection::connect_with(&self.options()?).await?;
        // The tests' own statements wait for the catalogue's locks.
        let sql = match self.name {
            "postgres-hostile" => format!("SET lock_timeout = '30s'; {sql}"),
            _ => sql,
        };
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut connection)
            .await?;
        Ok(connection.close().await?)
    }
}

/// The database of `postgres-hostile`. It stays on the server.
const HOSTILE_DATABASE: &str = "idem_hostile";

/// From PostgreSQL 15, where it is built with ICU, a database orders and folds text by its rules:
/// Turkish, numbers in their order as numbers, punctuation ignored.
const ICU: &str = "LOCALE_PROVIDER icu ICU_LOCALE 'tr-u-ka-shifted-kn-true'";

/// Defaults of the database. With `pg_catalog` behind it, a schema's functions and types hide the
/// server's own.
const DATABASE_DEFAULTS: &[(&str, &str)] = &[
    ("standard_conforming_strings", "off"),
    ("escape_string_warning", "off"),
    ("backslash_quote", "on"),
    ("default_transaction_isolation", "'repeatable read'"),
    ("default_transaction_deferrable", "on"),
    ("search_path", "idem_impostors, pg_catalog, public"),
    ("TimeZone", "'Asia/Kathmandu'"),
    ("DateStyle", "German"),
    ("IntervalStyle", "sql_standard"),
    ("bytea_output", "escape"),
    ("extra_float_digits", "-15"),
    ("array_nulls", "off"),
    ("transform_null_equals", "on"),
];

/// Defaults of the role in the database. A server that is older than a setting has none of it.
const ROLE_DEFAULTS: &[(&str, &str)] = &[
    ("idle_session_timeout", "'400ms'"),
    ("idle_in_transaction_session_timeout", "'1min'"),
    ("lock_timeout", "'20ms'"),
    ("statement_timeout", "'1min'"),
    ("transaction_timeout", "'1min'"),
    ("quote_all_identifiers", "on"),
    ("session_replication_role", "replica"),
    ("row_security", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_hashjoin", "off"),
    ("client_min_messages", "error"),
];

/// Functions and types with the server's names.
const IMPOSTORS: &str = "
CREATE SCHEMA idem_impostors;
CREATE FUNCTION idem_impostors.clock_timestamp() RETURNS timestamptz
    LANGUAGE sql AS 'SELECT pg_catalog.to_timestamp(0)';
CREATE FUNCTION idem_impostors.set_config(pg_catalog.text, pg_catalog.text, boolean)
    RETURNS pg_catalog.text LANGUAGE sql AS 'SELECT NULL::pg_catalog.text';
CREATE FUNCTION idem_impostors.current_setting(pg_catalog.text)
    RETURNS pg_catalog.text LANGUAGE sql AS 'SELECT NULL::pg_catalog.text';
CREATE FUNCTION idem_impostors.decode(pg_catalog.text, pg_catalog.text)
    RETURNS pg_catalog.bytea LANGUAGE sql AS 'SELECT NULL::pg_catalog.bytea';
CREATE FUNCTION idem_impostors.pg_notify(pg_catalog.text, pg_catalog.text)
    RETURNS void LANGUAGE sql AS 'SELECT';";

/// Creates the hostile database where it is missing; its defaults come last, so a database that has
/// them is whole.
async fn make_hostile_database(direct: &PostgresHarness) -> Result<(), BoxError> {
    let options = PgConnectOptions::from_str(&direct.url)?;
    let mut server = options.connect().await?;
    let lock = "SELECT pg_catalog.pg_advisory_lock(7031)";
    sqlx::raw_sql(lock).execute(&mut server).await?;
    let is_whole = format!(
        "SELECT FROM pg_db_role_setting AS s JOIN pg_database AS d ON d.oid = s.setdatabase
        WHERE d.datname = '{HOSTILE_DATABASE}' AND s.setrole <> 0"
    );
    let whole = sqlx::raw_sql(AssertSqlSafe(is_whole));
    if whole.fetch_optional(&mut server).await?.is_some() {
        return Ok(server.close().await?);
    }
    let known = "SELECT name FROM pg_settings UNION ALL
        SELECT 'ICU' WHERE current_setting('server_version_num')::integer >= 150000
            AND EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu')";
    let known = sqlx::raw_sql(known).fetch_all(&mut server).await?;
    let known: HashSet<String> = known
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    let icu = if known.contains("ICU") { ICU } else { "" };
    for sql in [
        format!("DROP DATABASE IF EXISTS {HOSTILE_DATABASE}"),
        format!("CREATE DATABASE {HOSTILE_DATABASE} TEMPLATE template0 ENCODING 'UTF8' {icu}"),
    ] {
        let sent = sqlx::raw_sql(AssertSqlSafe(sql));
        sent.execute(&mut server).await?;
    }
    let mut inside = options.database(HOSTILE_DATABASE).connect().await?;
    sqlx::raw_sql(IMPOSTORS).execute(&mut inside).await?;
    inside.close().await?;
    for (owner, defaults) in [
        (format!("DATABASE {HOSTILE_DATABASE}"), DATABASE_DEFAULTS),
        (
            format!("ROLE CURRENT_USER IN DATABASE {HOSTILE_DATABASE}"),
            ROLE_DEFAULTS,
        ),
    ] {
        let defaults = defaults.iter().filter(|(name, _)| known.contains(*name));
        let sql = defaults.map(|(name, value)| format!("ALTER {owner} SET {name} = {value};"));
        let sent = sqlx::raw_sql(AssertSqlSafe(sql.collect::<String>()));
        sent.execute(&mut server).await?;
    }
    Ok(server.close().await?)
}

/// Returns the harness of a case.
pub(crate) fn harness(cx: &Context) -> Result<PostgresHarness, CaseError> {
    PostgresHarness::of(cx.harness().name()).map_err(|missing| CaseError::new(missing.to_string()))
}

#[async_trait]
impl Harness for PostgresHarness {
    fn name(&self) -> &str {
        self.name
    }

    fn profile(&self) -> Profile {
        let core = Profile::new()
            .batch()
            .checkpoints()
            .watermarks()
            .transactions()
            .row_locks();
        if self.name == "postgres-hostile" {
            return core;
        }
        core.shared_between_processes()
            .durable()
            .password()
            .server_clock()
            .network()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let mut connection = PgConnection::connect_with(&self.options()?).await?;
        let row = sqlx::raw_sql("SHOW server_version")
            .fetch_one(&mut connection)
            .await?;
        let version: String = row.try_get(0)?;
        let number = version.split(' ').next().unwrap_or_default();
        Ok(Product::new(self.product, number))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        let namespace = format!("idem_test_{random:032x}");
        // Boxed, because it is deep.
        let store = Box::pin(self.store(&namespace)).await?;
        Box::pin(store.migrate()).await?;
        Box::pin(store.verify()).await?;
        store.pool().close().await;
        Ok(namespace)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.store(namespace).await?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.execute(format!("DROP SCHEMA IF EXISTS \"{namespace}\" CASCADE"))
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

    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let config = self.config(namespace)?;
        let url = with_password(&self.url, "idem", password);
        Ok(Some(Arc::new(PostgresStore::connect(&url, config).await?)))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        // Boxed, because it is deep.
        let store = Box::pin(self.store(namespace)).await?;
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED";
        let transaction = store.pool().begin_with(begin).await?;
        Ok(Some(Box::new(Begun { store, transaction })))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        let options = self.options().ok()?;
        (options.get_host(), options.get_port())
            .to_socket_addrs()
            .ok()?
            .next()
    }
}

/// A caller's transaction, through its own store.
struct Begun {
    store: PostgresStore,
    transaction: PgTransaction<'static>,
}

#[async_trait]
impl CallerTransaction for Begun {
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome, Error> {
        self.store.claim_in(&mut self.transaction, request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<(), Error> {
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

/// Repeats the call until its answer is no contention: the store has noticed then that a
/// transaction has ended.
pub(crate) async fn until_free<T, F>(call: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for _ in 0..300 {
        match call().await {
            Err(error) if error.kind() == ErrorKind::Contention => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return answer,
        }
    }
    call().await
}
