//! [`LeaseLoss`]: how a claim was lost.

/// How a claim was lost while its work ran, told once per claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// The store says that it is no longer held: another has acquired the key, or a sweep has
    /// failed it.
    Overtaken,
    /// It could not be renewed in time: the store was away, or this process stood still, for longer
    /// than the lease.
    Expired,
}

impl LeaseLoss {
    /// One word for logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Overtaken => "overtaken",
            Self::Expired => "expired",
        }
    }
}
