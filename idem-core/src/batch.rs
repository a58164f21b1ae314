//! [`BatchStore`]: many decisions in one round trip.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Claim, ClaimOutcome, ClaimRequest, IdempotencyStore, Response, Result};

/// One completion of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The claim to seal.
    pub claim: Claim,
    /// The response that seals it.
    pub response: Response,
    /// How long the response is replayed.
    pub retention: Duration,
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

    /// Executes [`complete`](IdempotencyStore::complete) for each completion; at most
    /// [`MAX_BATCH`](crate::limits::MAX_BATCH) of them, more are `InvalidInput` for each.
    ///
    /// # Cancellation
    ///
    /// As for the single operation, for each item.
    async fn complete_many(&self, completions: &[Completion]) -> Vec<Result<()>>;
}
