#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod addresses;
mod batch;
mod codes;
mod config;
mod ddl;
mod dialect;
mod error;
mod executor;
mod locked;
mod operations;
mod pool;
mod schema;
mod session;
mod sql;
mod statements;
mod store;
mod tx;
mod url;

pub use config::{ClaimMethod, Config};
pub use ddl::{SCHEMA_VERSION, schema_sql};
pub use error::is_transaction_retryable;
pub use pool::{Client, Connection, Manager, Pool};
pub use store::MssqlStore;
pub use tx::{Isolation, Transaction, TransactionRetry, Transactions};

pub use deadpool;
pub use idem_core;
pub use tiberius;
