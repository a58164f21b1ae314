//! The measured servers: private ones, with production settings.

use idem_servers::{Durability, Finder, Instance, Options, Source};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::bench::BenchOptions;
use crate::pool::Pool;

/// A server in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) product: String,
    pub(crate) version: Option<String>,
    pub(crate) settings: String,
}

/// Starts the servers of these names. The pool records missing ones.
///
/// # Errors
///
/// An error when a server exists and does not work.
pub(crate) fn start(names: &[&str], options: &BenchOptions) -> Result<Pool> {
    let mut sources = vec![Source::Local, Source::Packages];
    if options.from_environment {
        sources.insert(0, Source::Env);
    }
    let pool = Pool::default().with_finder(Finder::new().with_sources(&sources));
    if names.is_empty() {
        // Without names a pool would start all servers.
        return Ok(pool);
    }
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    pool.start(&names, &Options::new().with_durability(Durability::Durable))
}

impl From<&Instance> for Facts {
    fn from(instance: &Instance) -> Self {
        Self {
            name: instance.name().to_owned(),
            product: instance.product().name.clone(),
            version: instance.product().version.clone(),
            settings: settings(instance).to_owned(),
        }
    }
}

/// Returns the settings that a reader of the figures needs.
fn settings(instance: &Instance) -> &'static str {
    if instance.source() == Source::Env {
        return "its own";
    }
    match instance.name() {
        "postgres" => {
            "fsync, synchronous_commit, full_page_writes on; shared_buffers 1 GB, max_wal_size 4 GB"
        }
        "mariadb" => "innodb_flush_log_at_trx_commit 1, no binary log; buffer pool and log 1 GB",
        "mysql" => "innodb_flush_log_at_trx_commit 1, no binary log; buffer pool and redo log 1 GB",
        "redis" | "valkey" => "appendonly yes, appendfsync always, no snapshots",
        _ => "journal on; write concern majority, journaled",
    }
}
