//! SQL Server.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BatchStore;
use idem_mssql::tiberius::Row;
use idem_mssql::{Config, MssqlStore, SCHEMA_VERSION, schema_sql};

use super::{Backend, unanswered};
use crate::args::StoreArgs;
use crate::doctor::{Findings, Level};
use crate::failure::Result;

const VERSION: &str = "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(200))";
const CLOCK: &str =
    "SELECT CAST(DATEDIFF_BIG(microsecond, '1970-01-01', SYSUTCDATETIME()) AS nvarchar(40))";
const UPDATEABILITY: &str =
    "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(40))";
const DURABILITY: &str = "SELECT CAST(delayed_durability_desc AS nvarchar(40)) FROM sys.databases WHERE database_id = DB_ID()";
const TLS: &str = "SELECT CAST(encrypt_option AS nvarchar(10)) FROM sys.dm_exec_connections WHERE session_id = @@SPID";

struct Mssql(MssqlStore);

fn config(args: &StoreArgs) -> Result<Config> {
    let mut config = Config::new().with_timeout(args.timeout);
    if let Some(table) = &args.table {
        config = config.with_table(table)?;
    }
    if let Some(schema) = &args.schema {
        config = config.with_schema(schema)?;
    }
    Ok(config)
}

pub(super) fn schema(args: &StoreArgs) -> Result<String> {
    Ok(schema_sql(&config(args)?))
}

pub(super) async fn connect(args: &StoreArgs) -> Result<Box<dyn Backend>> {
    let store = MssqlStore::connect(args.url()?.as_str(), config(args)?).await?;
    Ok(Box::new(Mssql(store)))
}

#[async_trait]
impl Backend for Mssql {
    fn store(&self) -> Arc<dyn BatchStore> {
        Arc::new(self.0.clone())
    }

    async fn migrate(&self) -> idem_core::Result<()> {
        self.0.migrate().await
    }

    async fn verify(&self) -> idem_core::Result<()> {
        self.0.verify().await
    }

    async fn examine(&self, findings: &mut Findings) -> Result<()> {
        let version = self.ask(VERSION).await?.unwrap_or_default();
        findings.version("SQL Server", &version, SCHEMA_VERSION);
        findings.clock(|| self.clock()).await?;
        // Compatible servers lack some of these views, and some need a privilege.
        match self.ask(DURABILITY).await.ok().flatten().as_deref() {
            Some(value @ ("FORCED" | "ALLOWED")) => {
                let level = match value {
                    "FORCED" => Level::Error,
                    _ => Level::Warning,
                };
                let advice = "delayed commits are lost in a crash, and their work runs again; set DELAYED_DURABILITY = DISABLED";
                findings.setting("delayed_durability", value, (level, advice));
            }
            Some(value) => findings.ok("delayed_durability", value),
            None => findings.unseen(
                "delayed_durability",
                "see DELAYED_DURABILITY of the database",
            ),
        }
        match self.ask(UPDATEABILITY).await.ok().flatten().as_deref() {
            Some("READ_ONLY") => findings.error(
                "role",
                "the database is read only",
                "connect to the primary replica",
            ),
            Some(_) => findings.ok("role", "takes writes"),
            None => findings.unseen("role", "see whether this is the primary replica"),
        }
        match self.ask(TLS).await.ok().flatten().as_deref() {
            Some(is_on) => {
                let advice = "take `encrypt=off` out of the URL";
                findings.tls(is_on == "TRUE", false, advice);
            }
            None => findings.unseen(
                "tls",
                "it needs VIEW SERVER STATE; `encrypt=on` is the default",
            ),
        }
        Ok(())
    }

    #[cfg(feature = "certify")]
    async fn destroy(&self) -> Result<()> {
        let config = self.0.config();
        let prefix = config
            .schema()
            .map(|schema| format!("[{schema}]."))
            .unwrap_or_default();
        let table = config.table();
        let script = format!(
            "DROP TABLE IF EXISTS {prefix}[{table}]; DROP TABLE IF EXISTS {prefix}[{table}_watermarks];"
        );
        let connection = self.0.pool().get().await;
        let mut connection = connection.map_err(|error| unanswered("a connection", error))?;
        let dropped = connection.run_script(&script).await;
        self.0.pool().close();
        dropped
            .map(drop)
            .map_err(|error| unanswered("the removal of the tables", error))
    }
}

impl Mssql {
    async fn ask(&self, query: &'static str) -> Result<Option<String>> {
        // Boxed, because the driver's futures are large.
        let connection = Box::pin(self.0.pool().get()).await;
        let mut connection = connection.map_err(|error| unanswered("a connection", error))?;
        let sets = Box::pin(connection.run_script(query)).await;
        let sets = sets.map_err(|error| unanswered("its settings", error))?;
        let row: Option<&Row> = sets.first().and_then(|rows| rows.first());
        let text = row.and_then(|row| row.try_get::<&str, _>(0).ok().flatten());
        Ok(text.map(str::to_owned))
    }

    async fn clock(&self) -> Result<i64> {
        let text = self.ask(CLOCK).await?.unwrap_or_default();
        text.parse().map_err(|error| unanswered("its clock", error))
    }
}
