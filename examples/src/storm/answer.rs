//! [`Answer`]: the sender's view of a delivery.

use idem_core::Fingerprint;
use serde::{Deserialize, Serialize};

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// This delivery had the effect.
    Fresh,
    /// The effect existed already; this is the stored answer.
    Replay,
    /// The key belongs to another payload: refused.
    Conflict,
}

/// The parts of an answer that the audit needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// The fingerprint of the receipt's bytes; of no bytes without a receipt.
    pub(crate) receipt: Fingerprint,
}
