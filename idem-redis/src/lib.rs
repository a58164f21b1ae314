#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod batch;
mod cache;
mod checkpoint;
mod claim;
mod clock;
mod codes;
mod config;
mod connect;
mod ended;
mod error;
mod fresh;
mod hub;
mod info;
mod link;
mod many;
mod mismatch;
mod nonce;
mod operations;
mod pipeline;
mod reads;
mod record;
mod replicas;
mod script;
mod scripts;
mod shortcuts;
mod store;
mod sweep;
mod trust;
mod verify;
mod wake;
mod watermark;

pub use cache::{CacheHit, CacheRead, CacheTicket, RedisCache};
pub use config::{Config, Eviction, Notifications, Replicas};
pub use nonce::{Enforce, NonceError, NonceWindow, Posted};
pub use store::RedisStore;

pub use idem_core;
pub use redis;
