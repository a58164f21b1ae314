#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod batch;
mod checkpoint;
mod claim_batcher;
mod codes;
mod config;
mod documents;
mod error;
mod inspect;
mod locked;
mod lookup_batcher;
mod maintenance;
mod operations;
mod row;
mod schema;
mod session;
mod statements;
mod store;
mod tx;
mod watermark;

pub use config::{Config, Durability};
pub use error::is_transaction_retryable;
pub use schema::{SCHEMA_VERSION, schema_commands};
pub use store::MongoStore;
pub use tx::{TransactionRetry, Transactions};

pub use idem_core;
pub use mongodb;
