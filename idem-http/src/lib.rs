#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod body;
mod buffer;
mod choices;
mod date;
mod exchange;
mod fingerprint;
mod from_parts;
mod future;
pub mod grpc;
mod guard;
mod headers;
#[cfg(feature = "diff")]
mod kept;
#[cfg(not(feature = "diff"))]
#[path = "kept_off.rs"]
mod kept;
mod key;
mod layer;
#[cfg(feature = "diff")]
mod mask;
mod media;
mod names;
mod not_stored;
mod policy;
mod problem;
mod problem_type;
mod scope;
mod seal;
mod service;
mod statuses;

pub use body::Body;
pub use choices::{KeyForm, KeyFormat, OnStoreError, Requirement};
pub use future::ResponseFuture;
pub use headers::ReplayedHeaders;
#[cfg(feature = "diff")]
pub use kept::KeptRequests;
pub use key::{IdempotencyKey, KeyError};
pub use layer::IdempotencyLayer;
pub use names::{FIRST_ANSWERED, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED};
pub use not_stored::NotStored;
pub use policy::HttpPolicy;
pub use problem_type::ProblemType;
pub use scope::{ScopeError, ScopeExtractor};
pub use service::IdempotencyService;
pub use statuses::Statuses;
