#![doc = include_str!("../README.md")]

mod batch;
mod cache;
mod config;
mod connect;
mod error;
mod info;
mod link;
mod operations;
mod record;
mod script;
mod scripts;
mod store;
mod sweep;

pub use cache::{CacheHit, CacheRead, CacheTicket, RedisCache};
pub use config::{Config, Eviction, Replicas};
pub use store::RedisStore;

pub use idem_core;
pub use redis;
