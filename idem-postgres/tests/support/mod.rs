//! Access of the tests to PostgreSQL.

use std::collections::HashSet;
use std::ops::Deref;
use std::time::Duration;

use idem_conformance::{CaseError, CaseResult, Context, Missing, Profile};
use idem_core::{BoxError, Error, ErrorKind};
use idem_postgres::{Config, PostgresStore, StatementMode};
use idem_stores::{Adapter, Postgres, ServerUrl, Suite, found};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};

/// Returns the promises of every target.
fn profile() -> Profile {
    Profile::new()
        .batch()
        .checkpoints()
        .watermarks()
        .admin()
        .transactions()
        .row_locks()
}

/// Returns the same with the promises of a server without hostile defaults.
pub(crate) fn served() -> Profile {
    profile()
        .shared_between_processes()
        .durable()
        .password()
        .server_clock()
        .network()
}

/// Creates the adapter of the server itself.
pub(crate) fn adapter() -> Result<Postgres, Missing> {
    Ok(PostgresHarness::direct()?.0)
}

/// Creates the target for the server itself.
pub(crate) fn direct() -> Result<Suite<Postgres>, Missing> {
    let adapter = PostgresHarness::direct()?.0;
    Ok(Suite::new("postgres", adapter, served()))
}

/// Creates the target for the server behind PgBouncer in transaction mode. Through a proxy, its
/// stores are on a caller's pool.
pub(crate) fn pooled() -> Result<Suite<Postgres>, Missing> {
    let adapter = PostgresHarness::pooled()?.0;
    Ok(Suite::new("pgbouncer", adapter.clone(), served())
        .with_product("PostgreSQL behind PgBouncer")
        .with_proxied(adapter.with_pool(10)))
}

/// Creates the target for a database of the server whose defaults change the meaning or the course
/// of statements.
pub(crate) async fn hostile() -> Result<Suite<Postgres>, Missing> {
    let adapter = PostgresHarness::direct()?.0;
    let url = make_hostile_database(&adapter).await;
    let url = url.map_err(|error| Missing::new(format!("no hostile database: {error}")))?;
    Ok(Suite::new(
        "postgres-hostile",
        adapter.with_url(url),
        profile(),
    ))
}

/// The server of a case of this crate.
pub(crate) struct PostgresHarness(Postgres);

impl Deref for PostgresHarness {
    type Target = Postgres;

    fn deref(&self) -> &Postgres {
        &self.0
    }
}

impl PostgresHarness {
    pub(crate) fn direct() -> Result<Self, Missing> {
        Ok(Self(Postgres::new(found("postgres")?)))
    }

    fn pooled() -> Result<Self, Missing> {
        let config = Config::new().with_statement_mode(StatementMode::Unprepared);
        Ok(Self(Postgres::new(found("pgbouncer")?).with_config(config)))
    }

    /// Returns the server of the target with this name.
    pub(crate) fn of(name: &str) -> Result<Self, Missing> {
        match name {
            "pgbouncer" => Self::pooled(),
            _ => Self::direct(),
        }
    }

    /// Creates a role that may log in, with these privileges on the namespace's tables. A case is not
    /// run where the role of the tests may not do so.
    pub(crate) async fn create_role(
        &self,
        cx: &Context,
        role: &str,
        privileges: &str,
    ) -> CaseResult {
        let schema = cx.namespace();
        let created = self
            .execute(format!(
                "CREATE ROLE \"{role}\" LOGIN; GRANT USAGE ON SCHEMA \"{schema}\" TO \"{role}\";
                GRANT {privileges} ON \"{schema}\".idem_records,
                \"{schema}\".idem_records_watermarks TO \"{role}\""
            ))
            .await;
        created.map_err(|error| {
            let driver = error.downcast_ref::<sqlx::Error>();
            let code = driver.and_then(|driver| driver.as_database_error()?.code());
            // insufficient_privilege
            if code.as_deref() == Some("42501") {
                let url = idem_servers::variable(cx.harness().name(), "URL");
                return CaseError::not_run(format!("the role of {url} may not CREATE ROLE"));
            }
            error.into()
        })
    }

    /// Opens a store of the concrete type.
    pub(crate) async fn store(&self, namespace: &str) -> Result<PostgresStore, BoxError> {
        Adapter::store(&self.0, namespace).await
    }

    /// Opens the same for another role.
    pub(crate) async fn store_as(
        &self,
        role: &str,
        namespace: &str,
    ) -> Result<PostgresStore, BoxError> {
        let options = self.options()?.username(role);
        self.store_on(PgPoolOptions::new(), options, namespace)
            .await
    }

    /// Returns the server's URL with a default of the session.
    pub(crate) fn url_with(&self, name: &str, value: &str) -> String {
        let url = self
            .0
            .url()
            .map(|url| url.with(&format!("options[{name}]"), value));
        url.map_or_else(String::new, |url| url.as_str().to_owned())
    }

    /// Opens the same with a default of the session.
    pub(crate) async fn store_under(
        &self,
        name: &str,
        value: &str,
        namespace: &str,
    ) -> Result<PostgresStore, BoxError> {
        let options = self.options()?.options([(name, value)]);
        self.store_on(PgPoolOptions::new(), options, namespace)
            .await
    }

    /// Opens the same with this number of connections.
    pub(crate) async fn store_with(
        &self,
        max: u32,
        namespace: &str,
    ) -> Result<PostgresStore, BoxError> {
        let pool = PgPoolOptions::new().max_connections(max);
        self.store_on(pool, self.options()?, namespace).await
    }

    async fn store_on(
        &self,
        pool: PgPoolOptions,
        options: PgConnectOptions,
        namespace: &str,
    ) -> Result<PostgresStore, BoxError> {
        let pool = pool.connect_with(options).await?;
        Ok(PostgresStore::with_config(pool, self.config(namespace)?))
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
/// them is whole. Returns its URL.
async fn make_hostile_database(direct: &Postgres) -> Result<ServerUrl, BoxError> {
    let options = direct.driver_options()?;
    let inside = options.clone().database(HOSTILE_DATABASE);
    let url = inside.to_url_lossy().as_str().into();
    let mut server = options.connect().await?;
    let lock = "SELECT pg_catalog.pg_advisory_lock(7031)";
    sqlx::raw_sql(lock).execute(&mut server).await?;
    let is_whole = format!(
        "SELECT FROM pg_db_role_setting AS s JOIN pg_database AS d ON d.oid = s.setdatabase
        WHERE d.datname = '{HOSTILE_DATABASE}' AND s.setrole <> 0"
    );
    let whole = sqlx::raw_sql(AssertSqlSafe(is_whole));
    if whole.fetch_optional(&mut server).await?.is_some() {
        server.close().await?;
        return Ok(url);
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
    let mut inside = inside.connect().await?;
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
    server.close().await?;
    Ok(url)
}

/// Returns the server of a case.
pub(crate) fn harness(cx: &Context) -> Result<PostgresHarness, CaseError> {
    PostgresHarness::of(cx.harness().name()).map_err(|missing| CaseError::new(missing.to_string()))
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
