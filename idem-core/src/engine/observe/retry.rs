//! [`Retry`]: a call of the store that is repeated.

use crate::ErrorKind;

/// A call of the store that is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// The call: `claim`, `renew`, `complete`, `fail`, `release` and the like.
    pub call: &'static str,
    /// The error of the try before.
    pub kind: ErrorKind,
}

impl Retry {
    /// Returns the kind in one word for logs and metrics.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        kind_name(self.kind)
    }
}

/// Returns one word for each kind.
pub(super) fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "invalid_input",
        ErrorKind::ClaimLost => "claim_lost",
        ErrorKind::AlreadySealed => "already_sealed",
        ErrorKind::Contention => "contention",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Misconfigured => "misconfigured",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Other => "other",
    }
}
