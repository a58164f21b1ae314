#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod claims;
mod config;
mod connection;
mod defaults;
mod error;
mod listen;
mod listen_hub;
mod operations;
mod pooler;
mod query;
mod row;
mod schema;
mod session;
mod sql;
mod sqlstate;
mod statements;
mod store;
mod tx;

pub use config::{Config, Notifications, StatementMode};
pub use error::is_transaction_retryable;
pub use idem_sql::transactions::Isolation;
pub use listen::PostgresNotifier;
pub use schema::{SCHEMA_VERSION, schema_sql};
pub use store::PostgresStore;
pub use tx::{TransactionRetry, Transactions};

pub use idem_core;
pub use sqlx;
