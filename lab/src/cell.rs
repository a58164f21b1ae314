//! [`Cell`]: a store at a place, for traffic from several processes.

use std::sync::Arc;

use idem_conformance::CallerTransaction;
use idem_core::{BoxError, IdempotencyStore, MemoryStore};
use idem_postgres::{Config, StatementMode};
use idem_redis::Eviction;
use idem_stores::{Adapter, Mongo, MySql, Postgres, Redis, Sqlite};

use crate::product::{Hybrid, SqliteNormal};

/// A store at a place.
#[derive(Debug, Clone)]
pub enum Cell {
    /// In the memory of one process.
    Memory,
    /// SQLite, in a temporary folder.
    Sqlite(Sqlite),
    /// SQLite on a pool with `synchronous = NORMAL`, in a temporary folder.
    SqliteNormal(SqliteNormal),
    /// PostgreSQL.
    Postgres(Postgres),
    /// MySQL or MariaDB.
    MySql(MySql),
    /// Redis or Valkey.
    Redis(Redis),
    /// MongoDB or what is compatible with it.
    Mongo(Mongo),
    /// PostgreSQL with Redis in front.
    Hybrid(Hybrid),
}

/// Calls the same method of any adapter.
macro_rules! on_adapter {
    ($cell:expr, $adapter:ident => $call:expr, $memory:expr) => {
        match $cell {
            Cell::Memory => $memory,
            Cell::Sqlite($adapter) => $call,
            Cell::SqliteNormal($adapter) => $call,
            Cell::Postgres($adapter) => $call,
            Cell::MySql($adapter) => $call,
            Cell::Redis($adapter) => $call,
            Cell::Mongo($adapter) => $call,
            Cell::Hybrid($adapter) => $call,
        }
    };
}

impl Cell {
    /// Reads `memory`, `sqlite` or the URL of a server. `pgbouncer://` is a PostgreSQL behind a
    /// pooler in transaction mode, `hybrid:postgres://…+redis://…` one with a cache in front,
    /// `evicting://` a Redis that may drop records when its memory is full.
    ///
    /// # Errors
    ///
    /// Another text.
    pub fn parse(text: &str) -> Result<Self, BoxError> {
        let scheme = text.split(':').next().unwrap_or_default();
        Ok(match scheme {
            SqliteNormal::NAME => Self::SqliteNormal(SqliteNormal),
            Hybrid::SCHEME => Self::Hybrid(Hybrid::parse(&text[scheme.len() + 1..])?),
            "memory" => Self::Memory,
            "sqlite" => Self::Sqlite(Sqlite),
            "postgres" | "postgresql" => Self::Postgres(Postgres::new(text)),
            "pgbouncer" => {
                let config = Config::new().with_statement_mode(StatementMode::Unprepared);
                let url = text.replacen(scheme, "postgres", 1);
                Self::Postgres(Postgres::new(url).with_config(config))
            }
            "mysql" | "mariadb" => Self::MySql(MySql::new(text)),
            "redis" => Self::Redis(Redis::new(text)),
            "evicting" => {
                let config = idem_redis::Config::new().with_eviction(Eviction::Accept);
                let url = text.replacen(scheme, "redis", 1);
                Self::Redis(Redis::new(url).with_config(config))
            }
            "mongodb" => Self::Mongo(Mongo::new(text)),
            _ => {
                let known = "`memory`, `sqlite`, postgres://, mysql://, redis://, mongodb://";
                return Err(format!("there is no store `{scheme}`: choose {known}").into());
            }
        })
    }

    /// Returns name and version of the product.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub async fn product(&self) -> Result<String, BoxError> {
        let (name, version) = on_adapter!(self, adapter => adapter.product().await?, {
            return Ok("memory".to_owned());
        });
        Ok(format!("{name} {version}"))
    }

    /// Returns how long the store's clock shows the same instant, in microseconds.
    #[must_use]
    pub fn quantum(&self) -> i64 {
        match self {
            Self::Memory
            | Self::Postgres(_)
            | Self::MySql(_)
            | Self::Redis(_)
            | Self::Hybrid(_) => 1,
            // Their clocks count milliseconds.
            Self::Sqlite(_) | Self::SqliteNormal(_) | Self::Mongo(_) => 1_000,
        }
    }

    /// Returns whether a claim writes with one statement and reads with another, or writes again. In
    /// between another caller may change the record, so the answer is what that one left.
    #[must_use]
    pub fn asks_again(&self) -> bool {
        matches!(self, Self::MySql(_) | Self::Mongo(_))
    }

    /// Returns whether stored results may come from a cache, whose answers have no instant of the
    /// store.
    #[must_use]
    pub fn caches(&self) -> bool {
        matches!(self, Self::Hybrid(_))
    }

    /// Creates a namespace and returns its name.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub async fn create(&self) -> Result<String, BoxError> {
        on_adapter!(self, adapter => {
            let name = adapter.new_name();
            adapter.create(&name).await?;
            Ok(name)
        }, Ok(String::new()))
    }

    /// Opens a store on the namespace.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(on_adapter!(
            self,
            adapter => Arc::new(adapter.store(namespace).await?),
            Arc::new(MemoryStore::new())
        ))
    }

    /// Begins a transaction of a caller with a store of its own; `None` if there are none.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub async fn begin(
        &self,
        namespace: &str,
    ) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        on_adapter!(self, adapter => adapter.begin(namespace).await, Ok(None))
    }

    /// Removes the namespace.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        on_adapter!(self, adapter => adapter.destroy(namespace).await, Ok(()))
    }
}
