#![doc = include_str!("../README.md")]

mod batch;
mod batched_inserts;
mod codes;
mod config;
mod drivers;
mod error;
mod executor;
mod file;
mod group;
mod guarded;
mod lock;
mod operations;
mod pools;
mod schema;
mod session;
mod settings;
mod sql;
mod statements;
mod store;
mod transaction;
mod tx;
mod wait;
mod write;

pub use config::Config;
pub use drivers::CallerTransaction;
#[cfg(feature = "rusqlite")]
pub use drivers::RusqliteTransaction;
pub use error::is_transaction_retryable;
pub use group::Sharing;
pub use guarded::Transaction;
pub use schema::{SCHEMA_VERSION, schema_sql};
pub use store::SqliteStore;
pub use tx::{TransactionRetry, Transactions};

pub use idem_core;
#[cfg(feature = "rusqlite")]
pub use rusqlite;
#[cfg(feature = "sea-orm")]
pub use sea_orm;
pub use sqlx;
