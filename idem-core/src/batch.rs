//! [`BatchStore`]: many decisions in one round trip.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Claim, ClaimOutcome, ClaimRequest, Failure, IdempotencyStore, Response, Result};

/// The step that ends a claim: one item of [`BatchStore::finish_many`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// Ends it as [`complete`](IdempotencyStore::complete) does.
    Complete {
        /// The claim to seal.
        claim: Claim,
        /// The response that seals it.
        response: Response,
        /// How long the response is replayed.
        retention: Duration,
    },
    /// Ends it as [`fail`](IdempotencyStore::fail) does.
    Fail {
        /// The claim to seal.
        claim: Claim,
        /// The failure that seals it.
        failure: Failure,
        /// How long the failure is replayed.
        retention: Duration,
    },
    /// Ends it as [`release`](IdempotencyStore::release) does.
    Release {
        /// The claim to give up.
        claim: Claim,
    },
}

impl Finish {
    /// Returns the claim that ends.
    pub fn claim(&self) -> &Claim {
        match self {
            Self::Complete { claim, .. } | Self::Fail { claim, .. } | Self::Release { claim } => {
                claim
            }
        }
    }
}

/// A store that executes many operations in one statement or pipeline.
///
/// *Atomicity*: each item by itself, exactly as the single operation; a batch is not a transaction.
/// There is one answer per item, in the order of the items: an item that fails does not fail the
/// others. An error of the whole batch (a lost connection) is returned for each item.
///
/// Several items may name the same key; at most one of them acquires it.
#[async_trait]
pub trait BatchStore: IdempotencyStore {
    /// Executes [`claim`](IdempotencyStore::claim) for each request; at most
    /// [`MAX_BATCH`](crate::limits::MAX_BATCH) of them, more are `InvalidInput` for each.
    ///
    /// # Cancellation
    ///
    /// As for the single operation, for each item.
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>>;

    /// Executes [`complete`](IdempotencyStore::complete), [`fail`](IdempotencyStore::fail) or
    /// [`release`](IdempotencyStore::release) for each item; at most
    /// [`MAX_BATCH`](crate::limits::MAX_BATCH) of them, more are `InvalidInput` for each.
    ///
    /// # Cancellation
    ///
    /// As for the single operation, for each item.
    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>>;
}
