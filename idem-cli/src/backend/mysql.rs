//! MySQL and MariaDB.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BatchStore;
use idem_mysql::sqlx::mysql::MySqlRow;
use idem_mysql::sqlx::{self, Row};
use idem_mysql::{Config, MySqlStore, SCHEMA_VERSION, schema_sql};

use super::{Backend, unanswered};
use crate::args::StoreArgs;
use crate::doctor::{Findings, Level};
use crate::failure::Result;

const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment',
    'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'innodb_doublewrite', 'read_only',
    'super_read_only', 'wsrep_on', 'offline_mode')";

const TLS: &str = "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_cipher', 'Ssl_version')";

const CLOCK: &str =
    "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS CHAR)";

struct MySql {
    store: MySqlStore,
    is_local: bool,
}

fn config(args: &StoreArgs) -> Result<Config> {
    let mut config = Config::new()
        .with_timeout(args.timeout)
        .with_max_connections(4);
    if let Some(table) = &args.table {
        config = config.with_table(table)?;
    }
    if let Some(database) = &args.schema {
        config = config.with_database(database)?;
    }
    Ok(config)
}

pub(super) fn schema(args: &StoreArgs) -> Result<String> {
    Ok(schema_sql(&config(args)?))
}

pub(super) async fn connect(args: &StoreArgs) -> Result<Box<dyn Backend>> {
    let store = MySqlStore::connect(args.url()?.as_str(), config(args)?).await?;
    let is_local = args.url()?.is_local();
    Ok(Box::new(MySql { store, is_local }))
}

#[async_trait]
impl Backend for MySql {
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
        let settings = self.pairs(SETTINGS).await?;
        let setting = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
        let version = setting("version");
        let product = match version.contains("MariaDB") {
            true => "MariaDB",
            false => "MySQL",
        };
        findings.version(product, version, SCHEMA_VERSION);
        findings.clock(|| self.clock()).await?;
        durability(findings, setting);
        role(findings, setting);
        let tls = self.pairs(TLS).await?;
        let is_on = tls
            .get("Ssl_cipher")
            .is_some_and(|cipher| !cipher.is_empty());
        let advice = "add `?ssl-mode=VERIFY_IDENTITY` to the URL";
        findings.tls(is_on, self.is_local, advice);
        Ok(())
    }

    #[cfg(feature = "certify")]
    async fn destroy(&self) -> Result<()> {
        let config = self.store.config();
        let prefix = config
            .database()
            .map(|name| format!("`{name}`."))
            .unwrap_or_default();
        let table = config.table();
        let script =
            format!("DROP TABLE IF EXISTS {prefix}`{table}`, {prefix}`{table}_watermarks`");
        let dropped = sqlx::raw_sql(sqlx::AssertSqlSafe(script))
            .execute(self.store.pool())
            .await;
        self.store.close().await;
        dropped
            .map(drop)
            .map_err(|error| unanswered("the removal of the tables", error))
    }
}

fn durability<'s>(findings: &mut Findings, setting: impl Fn(&str) -> &'s str) {
    let flush = setting("innodb_flush_log_at_trx_commit");
    let verdict = match flush {
        // MariaDB's 3 also flushes at each commit.
        "1" | "3" => (Level::Ok, ""),
        _ => (
            Level::Error,
            "a crash of the machine (2) or the server (0) loses a second of completions, and their work runs again; \
             set it to 1",
        ),
    };
    findings.setting("innodb_flush_log_at_trx_commit", flush, verdict);
    match (setting("log_bin"), setting("sync_binlog")) {
        ("OFF" | "0", _) => findings.ok("sync_binlog", "there is no binary log"),
        (_, "1") => findings.ok("sync_binlog", "1"),
        (_, value) => findings.warning(
            "sync_binlog",
            value,
            "after a power failure, replicas may lack completions that this server has; set it to 1",
        ),
    }
    let doublewrite = setting("innodb_doublewrite");
    let level = match doublewrite {
        "OFF" | "0" => Level::Warning,
        _ => Level::Ok,
    };
    let advice = "a power failure may leave torn pages; set it to ON, unless the file system writes whole pages";
    findings.setting("innodb_doublewrite", doublewrite, (level, advice));
}

fn role<'s>(findings: &mut Findings, setting: impl Fn(&str) -> &'s str) {
    let is_on = |name: &str| matches!(setting(name), "ON" | "1");
    let cluster = match is_on("wsrep_on") {
        true => "; a node of a Galera cluster",
        false => "",
    };
    if is_on("super_read_only") || is_on("offline_mode") {
        findings.error(
            "role",
            "the server takes no writes",
            "connect to the primary",
        );
    } else if is_on("read_only") {
        let found = "the server is read only, except for administrators";
        findings.error("role", found, "connect to the primary");
    } else {
        findings.ok("role", format!("takes writes{cluster}"));
    }
}

impl MySql {
    async fn pairs(&self, query: &'static str) -> Result<BTreeMap<String, String>> {
        let rows = sqlx::raw_sql(query).fetch_all(self.store.pool()).await;
        let rows = rows.map_err(|error| unanswered("its settings", error))?;
        Ok(rows
            .iter()
            .map(|row| (text(row, 0), text(row, 1)))
            .collect())
    }

    async fn clock(&self) -> Result<i64> {
        let row = sqlx::raw_sql(CLOCK).fetch_one(self.store.pool()).await;
        let row = row.map_err(|error| unanswered("its clock", error))?;
        text(&row, 0)
            .parse()
            .map_err(|error| unanswered("its clock", error))
    }
}

fn text(row: &MySqlRow, index: usize) -> String {
    let bytes: Option<Vec<u8>> = row.try_get_unchecked(index).unwrap_or_default();
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(flush: &'static str, sync: &'static str, read_only: &'static str) -> Vec<Level> {
        let mut findings = Findings::default();
        let setting = |name: &str| match name {
            "innodb_flush_log_at_trx_commit" => flush,
            "sync_binlog" => sync,
            "read_only" => read_only,
            _ => "ON",
        };
        durability(&mut findings, setting);
        role(&mut findings, |name| match name {
            "read_only" => read_only,
            _ => "OFF",
        });
        findings.all().iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn settings_that_lose_completions_are_found() {
        use Level::{Error, Ok, Warning};
        assert_eq!(levels("1", "1", "OFF"), [Ok, Ok, Ok, Ok]);
        assert_eq!(levels("2", "0", "OFF"), [Error, Warning, Ok, Ok]);
        assert_eq!(levels("0", "1", "ON"), [Error, Ok, Ok, Error]);
    }
}
