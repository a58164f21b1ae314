//! SeaORM, the same on each database.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
#[cfg(all(feature = "sea-orm-mysql", not(feature = "sea-orm-postgres")))]
use idem_mysql::sea_orm;
#[cfg(feature = "sea-orm-postgres")]
use idem_postgres::sea_orm;
#[cfg(not(any(feature = "sea-orm-mysql", feature = "sea-orm-postgres")))]
use idem_sqlite::sea_orm;
use sea_orm::{ConnectionTrait, DatabaseTransaction, Statement};

use super::{Application, Caller, Calls, Driver, Level, Shop, caller};
use crate::Adapter;

/// Implements the application on a database: SeaORM is that of the store's crate.
macro_rules! on {
    (
        $(#[$about:meta])*
        $calls:ident, $module:ident, $crate_name:ident, $store:ident, $base:ident,
        url: |$at:ident, $namespace:ident, $address:ident| $url:expr,
        $(pool: $pool:expr,)?
        begin: |$level:ident| $options:expr $(,)?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        pub struct $calls;

        mod $module {
            use $crate_name::sea_orm::{
                ConnectOptions, Database, DatabaseConnection, IsolationLevel,
                TransactionOptions, TransactionTrait,
            };
            use $crate_name::{$store, is_transaction_retryable};

            use super::*;
            use crate::$base;

            #[async_trait]
            impl Calls for $calls {
                type Base = $base;

                async fn open(
                    &self,
                    $at: &$base,
                    $namespace: &str,
                    $address: Option<SocketAddr>,
                    connections: usize,
                ) -> Result<Arc<dyn Caller>, BoxError> {
                    let mut options = ConnectOptions::new($url);
                    options
                        .max_connections(u32::try_from(connections)?)
                        .connect_lazy(true)
                        .sqlx_logging(false);
                    $(($pool)(&mut options);)?
                    Ok(Arc::new(Application {
                        store: $at.store($namespace).await?,
                        payments: $base::payments($namespace),
                        connections: Database::connect(options).await?,
                    }))
                }
            }

            // It begins in its own task: a future of sqlx 0.9.0 that is dropped while it begins
            // leaves the transaction open.
            caller!($store, DatabaseTransaction, is_transaction_retryable,
                |database: DatabaseConnection, given| transaction in {
                let database = database.clone();
                let $level = match given {
                    Level::Default => None,
                    Level::Serializable => Some(IsolationLevel::Serializable),
                };
                let options: TransactionOptions = $options;
                let begun =
                    tokio::spawn(async move { database.begin_with_options(options).await });
                let mut transaction = begun.await??;
            });
        }
    };
}

#[async_trait]
impl Driver for DatabaseTransaction {
    async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
        self.execute_unprepared(sql).await?;
        Ok(())
    }

    async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
        let statement = Statement::from_string(self.get_database_backend(), sql);
        let row = self.query_one_raw(statement).await?;
        Ok(row.ok_or("there is no row")?.try_get_by_index(0)?)
    }
}

#[cfg(feature = "sea-orm-postgres")]
on! {
    /// An application on SeaORM and PostgreSQL.
    SeaOrmPostgres, postgres, idem_postgres, PostgresStore, Postgres,
    url: |at, namespace, address| crate::callers::url_of(at, address)?.as_str(),
    begin: |level| TransactionOptions { isolation_level: level, ..TransactionOptions::default() },
}

#[cfg(feature = "sea-orm-mysql")]
on! {
    /// An application on SeaORM and MySQL or MariaDB.
    SeaOrmMySql, mysql, idem_mysql, MySqlStore, MySql,
    url: |at, namespace, address| crate::callers::url_of(at, address)?.as_str(),
    // As `CallerTransaction` of idem-mysql says.
    pool: |options: &mut ConnectOptions| {
        options.map_sqlx_mysql_pool_opts(|pool| {
            pool.after_release(|connection, _| {
                use idem_mysql::sqlx::Connection as _;
                Box::pin(async { Ok(connection.ping().await.is_ok()) })
            })
        });
    },
    begin: |level| TransactionOptions {
        isolation_level: level.or(Some(IsolationLevel::ReadCommitted)),
        ..TransactionOptions::default()
    },
}

#[cfg(feature = "sea-orm-sqlite")]
on! {
    /// An application on SeaORM and SQLite.
    SeaOrmSqlite, sqlite, idem_sqlite, SqliteStore, Sqlite,
    url: |at, namespace, address| {
        let _ = address;
        format!("sqlite:{namespace}/{}", Sqlite::FILE)
    },
    begin: |level| {
        let _: Option<IsolationLevel> = level;
        TransactionOptions {
            sqlite_transaction_mode: Some(idem_sqlite::sea_orm::SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        }
    },
}
