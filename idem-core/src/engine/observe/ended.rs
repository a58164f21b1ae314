//! [`Ended`]: what became of a claim.

use std::time::Duration;

use crate::ErrorKind;

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// With a result.
    Sealed,
    /// With a recorded failure.
    Failed,
    /// Given up.
    Released,
    /// Left to its lease, as the policy says, or handed over.
    LetExpire,
    /// The store did not take its last step: the lease runs out, or another attempt has the key.
    Unsettled,
}

impl Ending {
    /// Returns one word for logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::Failed => "failed",
            Self::Released => "released",
            Self::LetExpire => "let_expire",
            Self::Unsettled => "unsettled",
        }
    }
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// How it ended.
    pub ending: Ending,
    /// The time from when any attempt first saw the key to the seal; for sealed claims only, where
    /// it is known. After a takeover, and for a claim that was handed over, it is read from the
    /// record.
    pub since_first_seen: Option<Duration>,
    /// Why it is unsettled.
    pub error: Option<ErrorKind>,
}
