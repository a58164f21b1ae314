#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod batch;
mod breaker;
mod cache;
mod config;
mod entry;
mod forward;
mod front;
mod guard;
#[cfg(feature = "local")]
mod local;
mod lookup;
mod metrics;
#[cfg(feature = "local")]
mod moment;
#[cfg(feature = "redis")]
mod redis;
mod store;
mod tiered;

pub use cache::Cache;
pub use config::{Config, Reads};
#[cfg(feature = "redis")]
pub use idem_redis::RedisCache;
#[cfg(feature = "local")]
pub use local::{LocalCache, LocalTicket};
pub use lookup::{Hit, Lookup};
pub use metrics::CacheMetrics;
pub use store::HybridStore;
pub use tiered::{Tiered, TieredTicket};

pub use idem_core;
#[cfg(feature = "redis")]
pub use idem_redis;
