#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod body;
mod buffer;
mod choices;
#[cfg(feature = "diff")]
mod differences;
mod exchange;
mod fingerprint;
mod forms;
mod future;
pub mod grpc;
mod guard;
mod headers;
mod hook;
mod in_transaction;
pub mod json;
mod json_rpc;
#[cfg(feature = "diff")]
mod kept;
#[cfg(not(feature = "diff"))]
#[path = "kept_off.rs"]
mod kept;
mod key;
mod keyed_request;
mod layer;
pub mod layers;
mod lifetime;
mod markers;
mod media;
mod pointer;
mod policy;
pub mod presets;
mod problem_type;
mod refusal;
mod scope;
mod seal;
mod service;
mod statuses;
mod stream;
mod transaction;

pub use answer::to_http;
pub use body::Body;
pub use choices::{KeyForm, OnDisconnect, OnStoreError, Requirement};
pub use fingerprint::FingerprintRecipe;
pub use future::ResponseFuture;
pub use headers::ReplayedHeaders;
pub use json_rpc::{Call, JsonRpc};
#[cfg(feature = "diff")]
pub use kept::KeptRequests;
pub use key::{FirstSent, IdempotencyKey, KeyError, KeyFormat, KeySource};
pub use keyed_request::KeyedRequest;
pub use layer::IdempotencyLayer;
pub use lifetime::Lifetime;
pub use markers::{FIRST_ANSWERED, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, Markers};
pub use policy::HttpPolicy;
pub use problem_type::ProblemType;
pub use refusal::Refusal;
pub use scope::{ScopeError, ScopeExtractor};
pub use seal::NotStored;
pub use service::IdempotencyService;
pub use statuses::Statuses;
pub use transaction::{HandlerError, NoTransaction, Tx};
