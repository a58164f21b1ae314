#![doc = include_str!("../README.md")]

mod batch;
mod codes;
mod config;
mod error;
mod executor;
mod held;
mod instance;
mod operations;
mod pool;
mod registry;
mod schema;
mod session;
mod sql;
mod statements;
mod store;
mod transaction;
mod tx;

pub use config::Config;
pub use error::is_transaction_retryable;
pub use pool::DuckDbPool;
pub use schema::{SCHEMA_VERSION, schema_sql};
pub use store::DuckDbStore;
pub use transaction::DuckDbTransaction;
pub use tx::{TransactionRetry, Transactions};

pub use duckdb;
pub use idem_core;
