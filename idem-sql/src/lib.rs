#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admin;
pub mod batch;
pub mod cells;
pub mod claim;
pub mod config;
pub mod executor;
pub mod maintenance;
pub mod operations;
pub mod parameters;
pub mod schema;
mod statements;
pub mod step;
mod store;
pub mod transactions;

#[cfg(feature = "sea-orm")]
pub mod sea_orm;
#[cfg(feature = "sqlx")]
pub mod sqlx;

/// The items that the macros of this crate expand to.
#[doc(hidden)]
pub mod macros {
    pub use async_trait::async_trait;
    pub use idem_core;
}
