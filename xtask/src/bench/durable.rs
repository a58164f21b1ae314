//! The servers that are measured: private ones, as in production.

use idem_servers::{Durability, ErrorKind, Finder, Instance, Options, Source};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::bench::BenchOptions;

/// Servers that run until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    running: Vec<Instance>,
    missing: Vec<(&'static str, String)>,
}

/// What a report says of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) product: String,
    pub(crate) version: Option<String>,
    pub(crate) settings: String,
}

impl Durable {
    /// Starts the servers of these names. One that cannot be had is noted.
    ///
    /// # Errors
    ///
    /// A server that is there and does not work.
    pub(crate) fn start(names: &[&'static str], options: &BenchOptions) -> Result<Self> {
        let mut sources = vec![Source::Local, Source::Packages];
        if options.from_environment {
            sources.insert(0, Source::Env);
        }
        let finder = Finder::new()
            .with_sources(&sources)
            .with_options(Options::new().with_durability(Durability::Durable))
            .with_progress(|what| println!("    {what}"));
        let mut servers = Self::default();
        for name in names {
            match finder.find(name) {
                Ok(instance) => {
                    let (product, url) = (instance.product(), instance.url());
                    println!("    {name}: {product} at {url}");
                    servers.running.push(instance);
                }
                Err(error) if error.kind() == ErrorKind::Missing => {
                    println!("    {name}: {error}");
                    servers.missing.push((name, error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(servers)
    }

    /// The names of those that run.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.running.iter().map(Instance::name).collect()
    }

    /// Those that could not be had, and why.
    pub(crate) fn missing(&self) -> &[(&'static str, String)] {
        &self.missing
    }

    /// By which the programs find them.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let found = self.running.iter();
        let found = found.map(|instance| (instance.url_variable(), instance.url().to_owned()));
        let missing = self.missing.iter();
        let missing =
            missing.map(|(name, reason)| (idem_servers::variable(name, "MISSING"), reason.clone()));
        found.chain(missing).collect()
    }

    /// For the report.
    pub(crate) fn facts(&self) -> Vec<Facts> {
        let facts = |instance: &Instance| Facts {
            name: instance.name().to_owned(),
            product: instance.product().name.clone(),
            version: instance.product().version.clone(),
            settings: settings(instance),
        };
        self.running.iter().map(facts).collect()
    }
}

/// What makes it durable, and what else it is told that a reader of figures asks for.
fn settings(instance: &Instance) -> String {
    if instance.source() == Source::Env {
        return "its own".to_owned();
    }
    match instance.name() {
        "postgres" => {
            "fsync, synchronous_commit, full_page_writes on; shared_buffers 1 GB, max_wal_size 4 GB"
        }
        "mariadb" => "innodb_flush_log_at_trx_commit 1, no binary log; buffer pool and log 1 GB",
        "mysql" => "innodb_flush_log_at_trx_commit 1, no binary log; buffer pool and redo log 1 GB",
        "redis" | "valkey" => "appendonly yes, appendfsync always, no snapshots",
        _ => "journal on; asked to write majority, journaled",
    }
    .to_owned()
}
