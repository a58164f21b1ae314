#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod claims;
mod config;
mod connection;
mod defaults;
mod drivers;
mod error;
mod listen;
mod listen_hub;
mod operations;
mod pooler;
mod query;
mod replicated;
mod row;
mod schema;
mod session;
mod sql;
mod sqlstate;
mod statements;
mod store;
mod transaction;
mod tx;

pub use config::{Config, Notifications, Replays, StatementMode};
pub use drivers::CallerTransaction;
#[cfg(feature = "deadpool-postgres")]
pub use drivers::DeadpoolTransaction;
pub use error::is_transaction_retryable;
pub use idem_sql::transactions::Isolation;
pub use listen::PostgresNotifier;
pub use schema::{SCHEMA_VERSION, schema_sql};
pub use store::PostgresStore;
pub use transaction::Transaction;
#[cfg(feature = "deadpool-postgres")]
pub use tx::DeadpoolTransactions;
pub use tx::{TransactionRetry, Transactions};

#[cfg(feature = "deadpool-postgres")]
pub use deadpool_postgres;
#[cfg(feature = "diesel-async")]
pub use diesel_async;
pub use idem_core;
#[cfg(feature = "sea-orm")]
pub use sea_orm;
pub use sqlx;
#[cfg(feature = "tokio-postgres")]
pub use tokio_postgres;
