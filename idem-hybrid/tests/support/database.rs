//! The sources of truth.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{CallerTransaction, Missing, Profile};
use idem_core::{AttemptId, BatchStore, BoxError};
use idem_mysql::MySqlStore;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use idem_postgres::sqlx::{self, AssertSqlSafe, Connection, Row};
use idem_sqlite::SqliteStore;

use super::transaction;

/// A database, with the cases' namespaces as in its own crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
    MySql,
}

fn url(server: &str) -> Result<String, Missing> {
    let missing = || Missing::new(idem_servers::missing_reason(server));
    idem_servers::url_for(server).ok_or_else(missing)
}

impl Database {
    pub(crate) const ALL: [Self; 3] = [Self::Sqlite, Self::Postgres, Self::MySql];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
        }
    }

    /// MariaDB where there is no MySQL.
    fn url(self) -> Result<String, Missing> {
        match self {
            Self::Sqlite => Ok(String::new()),
            Self::Postgres => url("postgres"),
            Self::MySql => url("mysql").or_else(|_| url("mariadb")),
        }
    }

    pub(crate) fn is_here(self) -> Result<(), Missing> {
        self.url().map(drop)
    }

    fn found(self) -> Result<String, BoxError> {
        self.url().map_err(|missing| missing.to_string().into())
    }

    pub(crate) fn profile(self) -> Profile {
        let profile = Profile::new().shared_between_processes().durable().batch();
        let profile = profile.checkpoints().watermarks().transactions();
        match self {
            Self::Sqlite => profile.with_clock_tick(Duration::from_millis(1)),
            Self::Postgres | Self::MySql => profile.server_clock().network().row_locks(),
        }
    }

    /// Returns name and version of the database behind the cache.
    pub(crate) async fn product(self) -> Result<(&'static str, String), BoxError> {
        let row = match self {
            Self::Sqlite => {
                let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
                let version = sqlx::query_scalar("SELECT sqlite_version()");
                return Ok(("SQLite", version.fetch_one(&pool).await?));
            }
            Self::Postgres => {
                let mut connection = PgConnection::connect_with(&self.pg()?).await?;
                let version = sqlx::raw_sql("SHOW server_version");
                version.fetch_one(&mut connection).await?.try_get(0)
            }
            Self::MySql => {
                let mut connection = MySqlConnection::connect_with(&self.my()?).await?;
                let version = sqlx::raw_sql("SELECT VERSION()");
                version.fetch_one(&mut connection).await?.try_get(0)
            }
        };
        let version: String = row?;
        let product = match self {
            Self::Postgres => "PostgreSQL",
            _ if version.contains("MariaDB") => "MariaDB",
            _ => "MySQL",
        };
        let number = version.split([' ', '-']).next();
        Ok((product, number.unwrap_or_default().to_owned()))
    }

    pub(crate) async fn create(self) -> Result<String, BoxError> {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        let namespace = format!("idem_test_{random:032x}");
        match self {
            Self::Sqlite => {
                let folder = std::env::temp_dir().join(namespace);
                std::fs::create_dir(&folder)?;
                let folder = folder.display().to_string();
                let store = sqlite(&folder).await?;
                store.migrate().await?;
                store.pool().close().await;
                return Ok(folder);
            }
            Self::Postgres => {
                let store = self.postgres(&namespace).await?;
                store.migrate().await?;
                store.pool().close().await;
            }
            Self::MySql => {
                let store = self.mysql(&namespace).await?;
                store.migrate().await?;
                store.pool().close().await;
            }
        }
        Ok(namespace)
    }

    pub(crate) async fn open(self, namespace: &str) -> Result<Arc<dyn BatchStore>, BoxError> {
        Ok(match self {
            Self::Sqlite => Arc::new(sqlite(namespace).await?),
            Self::Postgres => Arc::new(self.postgres(namespace).await?),
            Self::MySql => Arc::new(self.mysql(namespace).await?),
        })
    }

    /// Begins a caller's transaction, beside every cache.
    pub(crate) async fn begin(
        self,
        namespace: &str,
    ) -> Result<Box<dyn CallerTransaction>, BoxError> {
        match self {
            Self::Sqlite => transaction::sqlite(sqlite(namespace).await?).await,
            Self::Postgres => transaction::postgres(self.postgres(namespace).await?).await,
            Self::MySql => transaction::mysql(self.mysql(namespace).await?).await,
        }
    }

    /// Opens a store whose connections go to this address.
    pub(crate) fn open_through(
        self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        let (host, port) = (address.ip().to_string(), address.port());
        Ok(match self {
            Self::Sqlite => None,
            Self::Postgres => {
                let pool = PgPoolOptions::new()
                    .test_before_acquire(false)
                    .connect_lazy_with(self.pg()?.host(&host).port(port));
                let config = idem_postgres::Config::new().with_schema(namespace)?;
                Some(Arc::new(PostgresStore::with_config(pool, config)))
            }
            Self::MySql => {
                let pool = MySqlPoolOptions::new()
                    .test_before_acquire(false)
                    .connect_lazy_with(self.my()?.host(&host).port(port));
                let config = idem_mysql::Config::new().with_database(namespace)?;
                Some(Arc::new(MySqlStore::with_config(pool, config)))
            }
        })
    }

    pub(crate) fn address(self) -> Option<SocketAddr> {
        let (host, port) = match self {
            Self::Sqlite => return None,
            Self::Postgres => {
                let options = self.pg().ok()?;
                (options.get_host().to_owned(), options.get_port())
            }
            Self::MySql => {
                let options = self.my().ok()?;
                (options.get_host().to_owned(), options.get_port())
            }
        };
        (host, port).to_socket_addrs().ok()?.next()
    }

    pub(crate) async fn destroy(self, namespace: &str) -> Result<(), BoxError> {
        match self {
            Self::Sqlite => Ok(std::fs::remove_dir_all(namespace)?),
            Self::Postgres => {
                let mut connection = PgConnection::connect_with(&self.pg()?).await?;
                let drop = format!("DROP SCHEMA IF EXISTS \"{namespace}\" CASCADE");
                let drop = sqlx::raw_sql(AssertSqlSafe(drop));
                drop.execute(&mut connection).await?;
                Ok(connection.close().await?)
            }
            Self::MySql => {
                let mut connection = MySqlConnection::connect_with(&self.my()?).await?;
                let drop = format!("DROP DATABASE IF EXISTS `{namespace}`");
                let drop = sqlx::raw_sql(AssertSqlSafe(drop));
                drop.execute(&mut connection).await?;
                Ok(connection.close().await?)
            }
        }
    }

    fn pg(self) -> Result<PgConnectOptions, BoxError> {
        Ok(PgConnectOptions::from_str(&self.found()?)?.extra_float_digits(None))
    }

    fn my(self) -> Result<MySqlConnectOptions, BoxError> {
        Ok(MySqlConnectOptions::from_str(&self.found()?)?)
    }

    async fn postgres(self, namespace: &str) -> Result<PostgresStore, BoxError> {
        let config = idem_postgres::Config::new().with_schema(namespace)?;
        Ok(PostgresStore::connect(&self.found()?, config).await?)
    }

    async fn mysql(self, namespace: &str) -> Result<MySqlStore, BoxError> {
        let config = idem_mysql::Config::new().with_database(namespace)?;
        Ok(MySqlStore::connect(&self.found()?, config).await?)
    }
}

async fn sqlite(folder: &str) -> Result<SqliteStore, BoxError> {
    let file = Path::new(folder).join("idem.db");
    let url = format!("sqlite:{}", file.display());
    Ok(SqliteStore::connect(&url, idem_sqlite::Config::new()).await?)
}
