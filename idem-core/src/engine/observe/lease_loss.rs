//! [`LeaseLoss`]: how a claim was lost.

/// How a claim was lost while its work ran, reported once per claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// The store says that it is no longer held: another attempt has acquired the key, or
    /// `fail_abandoned` has failed it.
    Overtaken,
    /// It could not be renewed in time: for longer than the lease, the store was away or this
    /// process stood still.
    Expired,
}

impl LeaseLoss {
    /// Returns one word for logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Overtaken => "overtaken",
            Self::Expired => "expired",
        }
    }
}
