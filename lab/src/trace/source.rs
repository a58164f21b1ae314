//! [`Log`]: a private server whose log is read.

use std::sync::Arc;

use idem_core::{BoxError, IdempotencyStore};
use idem_servers::{Instance, Options, start_private};
use idem_stores::{Adapter, MySql, Postgres, Redis, Sqlite};

use super::{Change, mysql, postgres, redis, sqlite};

/// A server of our own whose log is read, with one namespace. Dropping it ends the server.
#[derive(Debug)]
pub struct Log {
    place: Place,
    namespace: String,
    /// The server; none for a file.
    instance: Option<Instance>,
}

#[derive(Debug)]
enum Place {
    Postgres(Postgres),
    Redis(Redis),
    MySql(MySql),
    Sqlite(Sqlite),
}

impl Log {
    /// Starts `postgres`, `redis`, `valkey`, `mariadb` or `mysql` with its log on, or makes a file for
    /// `sqlite`. Call it outside of an asynchronous task.
    ///
    /// # Errors
    ///
    /// Another name, or a server that cannot be started.
    pub fn start(name: &str) -> Result<Self, BoxError> {
        let options = Options::new();
        let options = match name {
            // What was not flushed is not decoded.
            "postgres" => options
                .with_setting("wal_level", "logical")
                .with_setting("synchronous_commit", "on"),
            "redis" | "valkey" => redis::options(options),
            "mariadb" | "mysql" => options
                .with_setting("log-bin", "trace")
                .with_setting("binlog-format", "ROW")
                .with_setting("server-id", "1"),
            "sqlite" => {
                return Ok(Self {
                    place: Place::Sqlite(Sqlite),
                    namespace: Sqlite.new_name(),
                    instance: None,
                });
            }
            _ => {
                let known = "`postgres`, `redis`, `valkey`, `mariadb`, `mysql`, `sqlite`";
                return Err(format!("`{name}` has no log that is read: choose {known}").into());
            }
        };
        let instance = start_private(name, &options)?;
        let place = match name {
            "postgres" => Place::Postgres(Postgres::new(instance.url())),
            "mariadb" | "mysql" => Place::MySql(MySql::new(instance.url())),
            _ => Place::Redis(Redis::new(instance.url())),
        };
        Ok(Self {
            place,
            namespace: Sqlite
                .new_name()
                .rsplit('/')
                .next()
                .unwrap_or("trace")
                .to_owned(),
            instance: Some(instance),
        })
    }

    /// Returns the name and version of the product.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub async fn product(&self) -> Result<String, BoxError> {
        if let Some(instance) = &self.instance {
            let product = instance.product();
            let version = product.version.clone().unwrap_or_default();
            return Ok(format!("{} {version}", product.name));
        }
        let (name, version) = Sqlite.product().await?;
        Ok(format!("{name} {version}"))
    }

    /// Returns how long the store's clock shows the same instant, in microseconds.
    #[must_use]
    pub fn quantum(&self) -> i64 {
        match self.place {
            Place::Sqlite(_) => 1_000,
            _ => 1,
        }
    }

    /// Returns whether claims write with one statement and read with another.
    #[must_use]
    pub fn asks_again(&self) -> bool {
        matches!(self.place, Place::MySql(_))
    }

    /// Creates the namespace, and begins its log.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub async fn begin(&self) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        let name = &self.namespace;
        match &self.place {
            Place::Postgres(adapter) => adapter.create(name).await?,
            Place::Redis(adapter) => adapter.create(name).await?,
            Place::MySql(adapter) => adapter.create(name).await?,
            Place::Sqlite(adapter) => adapter.create(name).await?,
        }
        match &self.place {
            Place::Postgres(adapter) => postgres::begin(adapter, name).await?,
            Place::Sqlite(_) => sqlite::begin(name).await?,
            Place::Redis(_) | Place::MySql(_) => {}
        }
        Ok(match &self.place {
            Place::Postgres(adapter) => Arc::new(adapter.store(name).await?),
            Place::Redis(adapter) => Arc::new(adapter.store(name).await?),
            Place::MySql(adapter) => Arc::new(adapter.store(name).await?),
            Place::Sqlite(adapter) => Arc::new(adapter.store(name).await?),
        })
    }

    /// Returns all changes of records since the beginning, in the server's order.
    ///
    /// # Errors
    ///
    /// Those of the server, and a log that cannot be read.
    pub async fn changes(&self) -> Result<Vec<Change>, BoxError> {
        match &self.place {
            Place::Postgres(adapter) => postgres::changes(adapter, &self.namespace).await,
            Place::Redis(adapter) => redis::changes(adapter, &self.namespace).await,
            Place::MySql(adapter) => mysql::changes(adapter, &self.namespace).await,
            Place::Sqlite(_) => sqlite::changes(&self.namespace).await,
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Place::Sqlite(_) = self.place {
            // A folder of ours, which nobody needs after the run.
            let _ = std::fs::remove_dir_all(&self.namespace);
        }
    }
}
