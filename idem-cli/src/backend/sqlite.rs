//! SQLite.

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BatchStore;
use idem_sqlite::sqlx::sqlite::SqliteConnectOptions;
use idem_sqlite::{Config, SCHEMA_VERSION, SqliteStore, schema_sql, sqlx};

use super::{Backend, Purpose, refuse_schema, unanswered};
use crate::args::StoreArgs;
use crate::doctor::{Findings, Level};
use crate::failure::{Failure, Result};

struct Sqlite(SqliteStore);

fn config(args: &StoreArgs) -> Result<Config> {
    refuse_schema(args, "SQLite")?;
    let config = Config::new().with_timeout(args.timeout);
    Ok(match &args.table {
        Some(table) => config.with_table(table)?,
        None => config,
    })
}

pub(super) fn schema(args: &StoreArgs) -> Result<String> {
    Ok(schema_sql(&config(args)?))
}

pub(super) async fn connect(args: &StoreArgs, purpose: Purpose) -> Result<Box<dyn Backend>> {
    let url = args.url()?.as_str();
    let options = SqliteConnectOptions::from_str(url)
        .map_err(|_| Failure::usage("the URL cannot be read; it is `sqlite:PATH`"))?;
    let is_memory = url.contains(":memory:") || url.contains("mode=memory");
    // The store would create the file, and with it hide a slip in its name.
    if purpose != Purpose::Create && !is_memory && !options.get_filename().exists() {
        return Err(Failure::usage(
            "there is no such file; check its name, or create it with `idem migrate`",
        ));
    }
    Ok(Box::new(Sqlite(
        SqliteStore::connect(url, config(args)?).await?,
    )))
}

#[async_trait]
impl Backend for Sqlite {
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
        let version = self.ask("SELECT sqlite_version()").await?;
        findings.version("SQLite", &version, SCHEMA_VERSION);
        let mode = self.ask("PRAGMA journal_mode").await?;
        let level = match &*mode {
            "wal" | "delete" | "truncate" | "persist" => Level::Ok,
            _ => Level::Error,
        };
        let advice = "a crash in a write damages the file; set `PRAGMA journal_mode = WAL`";
        findings.setting("journal_mode", &mode, (level, advice));
        let synchronous = match &*self.ask("PRAGMA synchronous").await? {
            "0" => "OFF",
            "1" => "NORMAL",
            "2" => "FULL",
            _ => "EXTRA",
        };
        let (level, advice) = match synchronous {
            "OFF" => (
                Level::Error,
                "a power failure loses completions and may damage the file",
            ),
            "NORMAL" => (
                Level::Warning,
                "a power failure loses the last completions; set FULL",
            ),
            _ => (Level::Ok, ""),
        };
        findings.setting("synchronous", synchronous, (level, advice));
        findings.ok(
            "other programs",
            "`synchronous` belongs to each connection; that of other programs is not visible here",
        );
        findings.ok("clock", "this machine's");
        findings.ok("tls", "not needed, no network");
        Ok(())
    }

    #[cfg(feature = "certify")]
    async fn destroy(&self) -> Result<()> {
        let options = self.0.pool().connect_options();
        let file = options.get_filename().to_owned();
        self.0.close().await;
        for ending in ["", "-wal", "-shm"] {
            let mut name = file.clone().into_os_string();
            name.push(ending);
            match std::fs::remove_file(name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Failure::store(format!("cannot remove a file: {error}")));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Sqlite {
    async fn ask(&self, query: &'static str) -> Result<String> {
        let row = sqlx::raw_sql(query).fetch_one(self.0.pool()).await;
        let row = row.map_err(|error| unanswered("a setting", error))?;
        let text: Option<String> = match sqlx::Row::try_get_unchecked(&row, 0) {
            Ok(text) => text,
            Err(error) => return Err(unanswered("a setting", error)),
        };
        Ok(text.unwrap_or_default())
    }
}
