//! PostgreSQL, also behind poolers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BatchStore;
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgConnection, PgRow, PgSslMode};
use idem_postgres::sqlx::{self, Connection, Executor, Row};
use idem_postgres::{Config, PostgresStore, SCHEMA_VERSION, StatementMode, schema_sql};

use super::{Backend, unanswered};
use crate::args::StoreArgs;
use crate::doctor::{Findings, Level};
use crate::failure::Result;
use crate::url::StoreUrl;

/// How long a step of the examination of a pooler waits: with a single server, the second client
/// waits for the first.
const POOLER_WAIT: Duration = Duration::from_millis(700);

const SETTINGS: &str = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN (
    'server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names',
    'transaction_read_only', 'max_prepared_transactions')";

const ROLE: &str =
    "SELECT CAST(pg_catalog.pg_is_in_recovery() AS text), CAST(current_user AS text)";

const CLOCK: &str = "SELECT CAST(CAST(
    EXTRACT(EPOCH FROM pg_catalog.clock_timestamp()) * 1000000 AS bigint) AS text)";

/// True where the name of the start-up packet is the one that a reset falls back to. A pooler gives
/// a server's session each client's name by SET.
const IS_DIRECT: &str = "SET LOCAL application_name TO DEFAULT;
SELECT CAST(pg_catalog.current_setting('application_name') = 'idem' AS text)";

const PID: &str = "SELECT CAST(pg_catalog.pg_backend_pid() AS text)";

struct Postgres {
    store: PostgresStore,
    is_unprepared: bool,
    is_local: bool,
}

fn config(args: &StoreArgs) -> Result<Config> {
    let mut config = Config::new()
        .with_timeout(args.timeout)
        .with_max_connections(4);
    if let Some(table) = &args.table {
        config = config.with_table(table)?;
    }
    if let Some(schema) = &args.schema {
        config = config.with_schema(schema)?;
    }
    if args.unprepared {
        config = config.with_statement_mode(StatementMode::Unprepared);
    }
    Ok(config)
}

pub(super) fn schema(args: &StoreArgs) -> Result<String> {
    Ok(schema_sql(&config(args)?))
}

pub(super) async fn connect(args: &StoreArgs) -> Result<Box<dyn Backend>> {
    let url = args.url()?.as_str();
    // Boxed, because the check of a pooler is deep.
    let store = Box::pin(PostgresStore::connect(url, config(args)?)).await?;
    // The variable PGHOST and parameters of the URL may name the host, too.
    let options = store.pool().connect_options();
    let host = StoreUrl::from(format!("postgres://{}", options.get_host()));
    Ok(Box::new(Postgres {
        store,
        is_unprepared: args.unprepared,
        is_local: options.get_socket().is_some() || host.is_local(),
    }))
}

#[async_trait]
impl Backend for Postgres {
    fn store(&self) -> Arc<dyn BatchStore> {
        Arc::new(self.store.clone())
    }

    async fn migrate(&self) -> idem_core::Result<()> {
        self.store.migrate().await
    }

    async fn verify(&self) -> idem_core::Result<()> {
        self.store.verify().await
    }

    async fn examine(&self, findings: &mut Findings) -> Result<()> {
        let settings = self.settings().await?;
        let setting = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
        let version = setting("server_version");
        findings.version("PostgreSQL", version, SCHEMA_VERSION);
        findings.clock(|| self.number(CLOCK)).await?;
        durability(findings, setting);
        let row = self.row(ROLE).await?;
        let (recovers, user) = (text(&row, 0), text(&row, 1));
        match (&*recovers, setting("transaction_read_only")) {
            ("true", _) => findings.error(
                "role",
                format!("{user}, on a read-only replica"),
                "connect to the primary, for example with `target_session_attrs` of the pooler or its own address",
            ),
            (_, "on") => findings.error(
                "role",
                format!("{user}, whose transactions are read only"),
                "ALTER ROLE … SET default_transaction_read_only = off",
            ),
            _ => findings.ok("role", format!("{user}, on the primary")),
        }
        let is_direct = self.row(IS_DIRECT).await?;
        let is_direct = text(&is_direct, 0) == "true";
        self.pooler(findings, is_direct).await;
        self.tls(findings);
        Ok(())
    }

    #[cfg(feature = "certify")]
    async fn destroy(&self) -> Result<()> {
        let config = self.store.config();
        let prefix = config
            .schema()
            .map(|schema| format!("\"{schema}\"."))
            .unwrap_or_default();
        let table = config.table();
        let script = format!(
            "SET LOCAL lock_timeout = '30s'; SET LOCAL client_min_messages = warning;
            DROP TABLE IF EXISTS {prefix}\"{table}\", {prefix}\"{table}_watermarks\""
        );
        let dropped = sqlx::raw_sql(sqlx::AssertSqlSafe(script))
            .execute(self.store.pool())
            .await;
        self.store.pool().close().await;
        dropped
            .map(drop)
            .map_err(|error| unanswered("the removal of the tables", error))
    }
}

fn durability<'s>(findings: &mut Findings, setting: impl Fn(&str) -> &'s str) {
    let commit = setting("synchronous_commit");
    let verdict = match commit {
        "off" => (
            Level::Error,
            "a crash loses the last completions, and their work runs again; set it to on, at least for this role",
        ),
        "local" if !setting("synchronous_standby_names").is_empty() => (
            Level::Warning,
            "a failover loses completions that the standby had not received; set it to on",
        ),
        _ => (Level::Ok, ""),
    };
    findings.setting("synchronous_commit", commit, verdict);
    let torn = "a power failure may leave a damaged database; set it to on";
    for name in ["fsync", "full_page_writes"] {
        let level = match setting(name) {
            "off" => Level::Error,
            _ => Level::Ok,
        };
        findings.setting(name, setting(name), (level, torn));
    }
}

impl Postgres {
    /// Sends a simple query, which no pooler mixes up with another.
    async fn row(&self, query: &'static str) -> Result<PgRow> {
        let row = sqlx::raw_sql(query).fetch_one(self.store.pool()).await;
        row.map_err(|error| unanswered("its settings", error))
    }

    async fn number(&self, query: &'static str) -> Result<i64> {
        let number = text(&self.row(query).await?, 0);
        number
            .parse()
            .map_err(|error| unanswered("its clock", error))
    }

    async fn settings(&self) -> Result<BTreeMap<String, String>> {
        let rows = sqlx::raw_sql(SETTINGS).fetch_all(self.store.pool()).await;
        let rows = rows.map_err(|error| unanswered("its settings", error))?;
        Ok(rows
            .iter()
            .map(|row| (text(row, 0), text(row, 1)))
            .collect())
    }

    fn options(&self) -> Arc<PgConnectOptions> {
        self.store.pool().connect_options()
    }

    /// Reports what the URL asks for: behind a pooler, the server does not see this connection.
    fn tls(&self, findings: &mut Findings) {
        let mode = self.options().get_ssl_mode();
        let is_required = matches!(
            mode,
            PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
        );
        let advice = "add `?sslmode=verify-full` to the URL";
        match is_required || self.is_local {
            true => findings.tls(is_required, self.is_local, advice),
            false => findings.warning("tls", "not required by the URL", advice),
        }
    }

    async fn pooler(&self, findings: &mut Findings, is_direct: bool) {
        if !self.is_unprepared && is_rds_proxy(self.options().get_host()) {
            findings.warning(
                "pooler",
                "RDS Proxy, which keeps a server's connection for each client that prepares statements",
                "to let clients share connections, use `StatementMode::Unprepared` (here: `--unprepared`)",
            );
            return;
        }
        if is_direct {
            findings.ok("pooler", "none");
            return;
        }
        let sends = match self.is_unprepared {
            true => "this program keeps no prepared statements",
            false => "prepared statements work through it",
        };
        match tokio::time::timeout(POOLER_WAIT * 4, pooler_mode(&self.options())).await {
            Ok(Ok(Mode::Statement)) => findings.error(
                "pooler",
                "in statement mode",
                "it refuses transactions; set PgBouncer's `pool_mode` to transaction or session",
            ),
            Ok(Ok(Mode::Transaction)) => {
                findings.ok("pooler", format!("in transaction mode; {sends}"));
            }
            Ok(Ok(Mode::Session)) => findings.ok("pooler", format!("in session mode; {sends}")),
            _ => findings.warning(
                "pooler",
                format!("one, whose mode is not visible; {sends}"),
                "it has no second server free for this examination; look at its `pool_mode`",
            ),
        }
    }
}

enum Mode {
    Session,
    Transaction,
    Statement,
}

/// How often a client is made to change its server: other clients of the pooler may take the server
/// that was meant for it.
const ROUNDS: usize = 8;

/// Lets one client keep the server that another used last. In transaction mode the other then has
/// another server; in session mode each has its own from the start.
async fn pooler_mode(options: &PgConnectOptions) -> Result<Mode, sqlx::Error> {
    let mut first = PgConnection::connect_with(options).await?;
    let mut second = PgConnection::connect_with(options).await?;
    let own = pid(&mut first).await?;
    let mut mode = Mode::Session;
    for _ in 0..ROUNDS {
        if let Err(error) = second.execute(sqlx::raw_sql("BEGIN")).await {
            // PgBouncer: "transaction blocks not allowed in statement pooling mode".
            error.as_database_error().ok_or(sqlx::Error::PoolClosed)?;
            mode = Mode::Statement;
            break;
        }
        let kept = pid(&mut second).await?;
        let after = pid(&mut first).await?;
        second.execute(sqlx::raw_sql("ROLLBACK")).await?;
        if kept == own || after != own {
            mode = Mode::Transaction;
            break;
        }
        pid(&mut first).await?;
    }
    let _ = (first.close().await, second.close().await);
    Ok(mode)
}

async fn pid(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    Ok(text(&connection.fetch_one(sqlx::raw_sql(PID)).await?, 0))
}

/// Returns whether this is an endpoint such as `name.proxy-id.region.rds.amazonaws.com`:
/// <https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/rds-proxy-endpoints.html>.
fn is_rds_proxy(host: &str) -> bool {
    host.contains(".proxy-") && host.contains(".rds.amazonaws.com")
}

/// Answers to simple queries are text.
fn text(row: &PgRow, index: usize) -> String {
    let text: Option<String> = row.try_get_unchecked(index).unwrap_or_default();
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(commit: &str, standbys: &str, fsync: &str) -> Vec<Level> {
        let mut findings = Findings::default();
        durability(&mut findings, |name| match name {
            "synchronous_commit" => commit,
            "synchronous_standby_names" => standbys,
            "fsync" => fsync,
            _ => "on",
        });
        findings.all().iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn rds_proxy_is_known_by_its_endpoint() {
        assert!(is_rds_proxy(
            "shop.proxy-abcd1234.eu-west-1.rds.amazonaws.com"
        ));
        assert!(is_rds_proxy(
            "ro.endpoint.proxy-a1.us-east-1.rds.amazonaws.com"
        ));
        assert!(!is_rds_proxy("shop.abcd1234.eu-west-1.rds.amazonaws.com"));
        assert!(!is_rds_proxy("db.proxy-1.example.com"));
    }

    #[test]
    fn settings_that_lose_completions_are_found() {
        use Level::{Error, Ok, Warning};
        assert_eq!(levels("on", "", "on"), [Ok, Ok, Ok]);
        assert_eq!(levels("local", "", "on"), [Ok, Ok, Ok]);
        assert_eq!(levels("local", "b", "on"), [Warning, Ok, Ok]);
        assert_eq!(levels("off", "", "off"), [Error, Error, Ok]);
    }
}
