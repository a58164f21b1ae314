#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod client;
mod delivery;
mod error;
mod exchange;
mod fingerprint;
mod intent;
mod issued;
mod keys;
mod protocol;
#[cfg(feature = "reqwest")]
mod reqwest;
mod retry;
mod send;
#[cfg(feature = "tower")]
mod tower;

pub use body::AnswerBody;
pub use client::IdempotencyClient;
pub use delivery::{Delivery, GaveUp};
pub use error::{Error, ErrorKind};
pub use fingerprint::BodyComparison;
pub use intent::{Intent, MissingIntent};
pub use issued::{IssuedKey, KeyForm};
pub use keys::{FileKeys, IntentKeys, StoreKeys};
pub use protocol::{Answer, Carrier, Protocol, ReplayMarker, Verdict};
pub use retry::{RetryBudget, RetryPolicy};
#[cfg(feature = "tower")]
pub use tower::{IdempotencyService, ResponseFuture};

pub use http;
pub use idem_core;
