#![doc = include_str!("../README.md")]

mod backoff;
mod batch;
mod carried;
pub mod check;
mod checkpoint;
mod claim;
mod compressed;
pub mod decision;
mod digest;
pub mod engine;
mod error;
mod ext;
mod failure;
mod fingerprint;
mod forward;
mod gather;
mod key;
mod limits;
mod locked_keys;
pub mod memory;
mod metadata;
mod nonce;
mod recipe;
mod record;
mod redacted;
mod request;
mod response;
mod sealed;
mod store;
mod stored;
mod time;
mod token;
mod traffic;
mod wake;
mod watermark;
mod wrappers;

pub use batch::{BatchStore, Completion};
pub use checkpoint::{Checkpoint, CheckpointStore};
pub use claim::{Claim, ClaimOutcome};
pub use engine::{
    BusyPolicy, ErrorPolicy, HandOver, Idempotency, InterruptPolicy, NotUndone, Outcome, Policies,
    Policy, RunError, Saga, SagaEnd, SagaStep, SagaStop, StepError, Work,
};
pub use error::{BoxError, Effect, Error, ErrorKind, Result};
pub use ext::IdempotencyStoreExt;
pub use failure::Failure;
pub use fingerprint::{Fingerprint, MAX_JSON_DEPTH, Scheme, canonical_json};
pub use gather::{Gather, Underway};
pub use key::Key;
pub use limits::{Limits, MAX_BATCH, MAX_LEASE, MAX_RETENTION};
pub use locked_keys::{LockedKeys, MAX_LOCK_WAIT, TryTurn, Turn};
pub use memory::MemoryStore;
pub use metadata::Metadata;
pub use nonce::Nonce;
pub use recipe::{Target, normalize_name};
pub use record::{Completed, Conflict, Failed, InFlight, Record, RecordInfo};
pub use redacted::Redacted;
pub use request::{ClaimRequest, FailedPolicy, StalePolicy};
pub use response::Response;
pub use sealed::{Sealed, encode_failure, encode_response};
pub use store::IdempotencyStore;
pub use stored::StoredRecord;
pub use time::{Timestamp, whole_millis_as_micros};
pub use token::{AttemptId, FencingToken};
pub use traffic::Traffic;
pub use wake::{Listener, Wakes};
pub use watermark::{Advance, MAX_VERSION, WatermarkStore};
pub use wrappers::{Coalesced, SingleFlight};

pub use async_trait::async_trait;
pub use bytes::Bytes;
