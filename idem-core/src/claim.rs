//! [`Claim`], the handle that the winner holds, and [`ClaimOutcome`], what every claimant learns.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, Completed, Conflict, Failed, FencingToken, Fingerprint, InFlight, Key, Record,
    Timestamp,
};

/// Proof that a key is held: given to complete, fail, release and renew.
///
/// Holding it is not holding the key for ever: the lease ends at
/// [`lease_ends_at`](Self::lease_ends_at) by the store's clock, and then somebody else may acquire
/// the key. The store decides at each step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "a claim that is dropped blocks its key until the lease ends; complete, fail or release it"]
pub struct Claim {
    key: Key,
    token: FencingToken,
    attempt: AttemptId,
    attempts: u32,
    lease_ends_at: Timestamp,
    granted_at: Timestamp,
}

impl Claim {
    /// A claim as a store grants it: `granted_at` is the store's clock when it answered, `attempts`
    /// the number of acquisitions since the key was fresh, this one included.
    pub fn new(
        key: Key,
        token: FencingToken,
        attempt: AttemptId,
        attempts: u32,
        granted_at: Timestamp,
        lease_ends_at: Timestamp,
    ) -> Self {
        Self {
            key,
            token,
            attempt,
            attempts,
            lease_ends_at,
            granted_at,
        }
    }

    /// The key that is held.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The fencing token of this acquisition.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The id of the attempt that acquired it.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// How often the key was acquired since it was fresh: 1 for the first, more after a takeover or
    /// a retry of a failure.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether somebody else has held the key before, for the same request, and may have done part
    /// of the work.
    #[must_use]
    pub fn is_takeover(&self) -> bool {
        self.attempts > 1
    }

    /// When the lease ends, by the store's clock.
    #[must_use]
    pub fn lease_ends_at(&self) -> Timestamp {
        self.lease_ends_at
    }

    /// How long the lease was when the store granted it. Count it from before the request was sent.
    #[must_use]
    pub fn lease_granted(&self) -> Duration {
        self.lease_ends_at.saturating_since(self.granted_at)
    }

    /// A key for what the work itself calls, stable across attempts: see [`Key::derive`].
    #[must_use]
    pub fn derive(&self, name: &str) -> Key {
        self.key.derive(name)
    }
}

/// The answer to a claim. Losing is an answer, not an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[must_use = "only the acquirer may do the work"]
pub enum ClaimOutcome {
    /// Yours: do the work, then complete, fail or release.
    Acquired(Claim),
    /// Being done by somebody else.
    InFlight(InFlight),
    /// Done: here is the answer.
    Completed(Completed),
    /// Failed for good: here is why.
    Failed(Failed),
    /// The key was used for another request; nothing was done.
    Conflict(Conflict),
}

impl ClaimOutcome {
    /// What a claimant with this fingerprint learns from a live record that it may not acquire.
    pub fn from_record(record: Record, fingerprint: &Fingerprint) -> Self {
        if record.info().fingerprint != *fingerprint {
            let info = match record {
                Record::InFlight(InFlight { info, .. })
                | Record::Completed(Completed { info, .. })
                | Record::Failed(Failed { info, .. }) => info,
            };
            return Self::Conflict(Conflict { info });
        }
        match record {
            Record::InFlight(in_flight) => Self::InFlight(in_flight),
            Record::Completed(completed) => Self::Completed(completed),
            Record::Failed(failed) => Self::Failed(failed),
        }
    }

    /// The claim, if it was acquired.
    pub fn acquired(self) -> Option<Claim> {
        match self {
            Self::Acquired(claim) => Some(claim),
            Self::InFlight(_) | Self::Completed(_) | Self::Failed(_) | Self::Conflict(_) => None,
        }
    }

    /// One word for logs and metrics: `acquired`, `in_flight`, `completed`, `failed`, `conflict`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Acquired(_) => "acquired",
            Self::InFlight(_) => "in_flight",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Conflict(_) => "conflict",
        }
    }
}
