#![doc = include_str!("../README.md")]

mod asked;
mod attempts;
mod batch;
mod capabilities;
mod claim;
mod codes;
mod config;
mod counters;
mod error;
mod gate;
mod looks;
mod maintenance;
mod operations;
mod own;
mod row;
mod schema;
mod server;
mod session;
mod settings;
mod sql;
mod statements;
mod store;
mod transaction;
mod tx;
mod verify;

pub use attempts::{Attempts, Isolation, Transactions};
pub use config::{ClaimOrder, Config, Returning};
pub use counters::Contention;
pub use error::is_transaction_retryable;
pub use schema::{SCHEMA_VERSION, schema_sql};
pub use store::MySqlStore;
pub use transaction::Transaction;

pub use idem_core;
pub use sqlx;
