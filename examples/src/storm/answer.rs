//! [`Answer`]: what the sender learns about a delivery.

use idem_core::Fingerprint;
use serde::{Deserialize, Serialize};

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// This delivery had the effect.
    Fresh,
    /// The effect was there already; the stored answer.
    Replay,
    /// The key belongs to another payload: refused.
    Conflict,
}

/// What the audit needs to know of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// Of the bytes of the receipt; of no bytes where there is none.
    pub(crate) receipt: Fingerprint,
}
