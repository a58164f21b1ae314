#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admin;
pub mod backend;
mod backoff;
mod batch;
mod carried;
mod checkpoint;
mod claim;
mod compressed;
mod digest;
pub mod engine;
mod error;
mod ext;
mod failure;
pub mod fingerprint;
mod forward;
pub mod guide;
pub mod key;
pub mod limits;
pub mod memory;
mod metadata;
mod nonce;
mod recipe;
mod record;
mod request;
mod response;
mod store;
mod time;
mod token;
mod watermark;
pub mod wrappers;

pub use admin::RecordAdmin;
pub use batch::{BatchStore, Finish};
pub use checkpoint::{Checkpoint, CheckpointStore};
pub use claim::{Claim, ClaimOutcome};
pub use engine::{BusyPolicy, ErrorPolicy, Idempotency, Outcome, Policies, Policy, RunError, Work};
pub use error::{BoxError, Effect, Error, ErrorKind, Result};
pub use ext::IdempotencyStoreExt;
pub use failure::Failure;
pub use fingerprint::Fingerprint;
pub use key::Key;
pub use limits::Limits;
pub use memory::MemoryStore;
pub use metadata::Metadata;
pub use nonce::Nonce;
pub use record::{Completed, Conflict, Failed, InFlight, Record, RecordInfo};
pub use request::{ClaimRequest, FailedPolicy, StalePolicy};
pub use response::Response;
pub use store::IdempotencyStore;
pub use time::Timestamp;
pub use token::{AttemptId, FencingToken};
pub use watermark::{Advance, WatermarkStore};

pub use async_trait::async_trait;
pub use bytes::Bytes;
