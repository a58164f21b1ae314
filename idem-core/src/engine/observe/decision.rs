//! [`Decision`]: what the store decided about a run's key.

/// What the store decided about a run's key, once per run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decision {
    /// The first claim of the key: the work runs.
    New,
    /// Another attempt did not end with a result: the work runs again.
    Takeover,
    /// It is done: the result is replayed.
    Duplicate,
    /// It has failed for good: the failure is replayed.
    Failed,
    /// Another run works on it, also after the wait that the policy allows.
    InFlight,
    /// The key is in use for another request.
    Conflict,
    /// The store gave no decision.
    Unknown,
}

impl Decision {
    /// Returns one word for logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Takeover => "takeover",
            Self::Duplicate => "duplicate",
            Self::Failed => "failed",
            Self::InFlight => "in_flight",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
        }
    }
}
