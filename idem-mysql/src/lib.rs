#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod claim;
mod codes;
mod config;
mod counters;
mod drivers;
mod error;
mod executor;
mod gate;
mod held;
mod maintenance;
mod operations;
mod row;
mod schema;
mod server;
mod session;
mod settings;
mod sql;
mod statements;
mod store;
mod transaction;
mod transaction_retry;
mod tx;

pub use config::Config;
pub use counters::Contention;
pub use drivers::CallerTransaction;
#[cfg(feature = "mysql_async")]
pub use drivers::MySqlAsyncTransaction;
pub use error::is_transaction_retryable;
pub use idem_sql::transactions::Isolation;
pub use schema::{SCHEMA_VERSION, schema_sql};
pub use store::MySqlStore;
pub use transaction::Transaction;
#[cfg(feature = "mysql_async")]
pub use transaction_retry::MySqlAsyncTransactions;
pub use transaction_retry::{TransactionRetry, Transactions};

#[cfg(feature = "diesel-async")]
pub use diesel_async;
pub use idem_core;
#[cfg(feature = "mysql_async")]
pub use mysql_async;
#[cfg(feature = "sea-orm")]
pub use sea_orm;
pub use sqlx;
