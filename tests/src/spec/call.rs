//! [`Call`]: a call of a store's operation on one key.

use serde::{Deserialize, Serialize};

/// A call on one key. Times are in microseconds, payloads are hashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    /// The operation.
    #[serde(flatten)]
    pub op: Op,
    /// The attempt of the claim or its holder; 0 for calls without one.
    #[serde(rename = "att", default)]
    pub attempt: u64,
    /// The holder's token; 0 for calls without one.
    #[serde(rename = "tok", default)]
    pub token: i64,
}

/// An operation, and what it carries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Claims.
    Claim {
        /// The request's fingerprint.
        fp: u64,
        /// The lease.
        lease: i64,
        /// How long an abandoned record is kept.
        ret: i64,
        /// Whether stale claims are taken over, and this one may be.
        takeover: bool,
        /// Whether recorded failures are tried again.
        retry: bool,
    },
    /// Completes.
    Complete {
        /// The hash of the result.
        seal: u64,
        /// The retention.
        ret: i64,
    },
    /// Fails.
    Fail {
        /// The hash of the failure.
        seal: u64,
        /// The retention.
        ret: i64,
    },
    /// Releases.
    Release,
    /// Extends the lease.
    Renew {
        /// The lease.
        lease: i64,
    },
    /// Stores a checkpoint.
    Save {
        /// The hash of the checkpoint.
        cp: u64,
    },
    /// Reads the latest checkpoint.
    Load,
    /// Reads the record.
    Get,
    /// A sweep of the whole store, which fails abandoned claims.
    Sweep,
    /// No call, but a fault after which the store may have lost what it had acknowledged, as its
    /// documentation says: a fail-over, a power cut.
    Loss,
    /// No call, but a fault after which the store may have taken back what it showed before it was
    /// safe, as its documentation says: writes without an answer, and none that had one.
    TakeBack,
    /// No call, but a step of the store's clock: later instants of it may be earlier ones.
    Clock {
        /// Whether the tokens of a record that was deleted before may be given again.
        forgets: bool,
    },
}
