#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod batch;
mod checkpoint;
mod clock;
mod codes;
mod config;
mod error;
mod maintenance;
mod operations;
mod row;
mod schema;
mod session;
mod statements;
mod store;
mod tx;
mod watermark;

pub use config::{Config, LookupFirst};
pub use schema::schema_commands;
pub use store::DynamoStore;
pub use tx::{Refusal, Transaction, TransactionOutcome};

pub use aws_sdk_dynamodb;
pub use idem_core;
