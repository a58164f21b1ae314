//! [`Claim`], the handle that the winner holds, and [`ClaimOutcome`], the answer to every claimant.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, Completed, Conflict, Failed, FencingToken, Fingerprint, InFlight, Key, Record,
    Timestamp,
};

/// Proof that a key is held: passed to complete, fail, release and renew.
///
/// A claim does not hold the key for ever: the lease ends at [`lease_ends_at`](Self::lease_ends_at)
/// by the store's clock, and then another attempt may acquire the key. The store decides at each
/// step.
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
    /// Creates a claim as a store grants it: `granted_at` is the store's clock when it answered,
    /// `attempts` the number of acquisitions since the key was fresh, this one included.
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

    /// Returns the key that is held.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the fencing token of this acquisition.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the id of the attempt that acquired it.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// Returns how often the key was acquired since it was fresh: 1 for the first acquisition, more
    /// after a takeover or a retry of a failure.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns whether another attempt has held the key before, for the same request, and may have
    /// done part of the work.
    #[must_use]
    pub fn is_takeover(&self) -> bool {
        self.attempts > 1
    }

    /// Returns when the lease ends, by the store's clock.
    #[must_use]
    pub fn lease_ends_at(&self) -> Timestamp {
        self.lease_ends_at
    }

    /// Returns how long the lease was when the store granted it. Count it from before the request
    /// was sent.
    #[must_use]
    pub fn lease_granted(&self) -> Duration {
        self.lease_ends_at.saturating_since(self.granted_at)
    }

    /// Derives a key for a system that the work calls, stable across attempts: see [`Key::derive`].
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
    /// Acquired: do the work, then complete, fail or release.
    Acquired(Claim),
    /// Another attempt is working on it.
    InFlight(InFlight),
    /// Done: this is the stored response.
    Completed(Completed),
    /// Failed for good: this is the stored failure.
    Failed(Failed),
    /// The key was used for another request; nothing was done.
    Conflict(Conflict),
}

impl ClaimOutcome {
    /// Returns what a claimant with this fingerprint gets for a live record that it may not
    /// acquire.
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

    /// Returns the claim, if it was acquired.
    pub fn acquired(self) -> Option<Claim> {
        match self {
            Self::Acquired(claim) => Some(claim),
            Self::InFlight(_) | Self::Completed(_) | Self::Failed(_) | Self::Conflict(_) => None,
        }
    }

    /// Returns one word for logs and metrics: `acquired`, `in_flight`, `completed`, `failed`,
    /// `conflict`.
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
