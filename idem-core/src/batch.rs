//! [`BatchStore`]: many decisions in one round trip.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Claim, ClaimOutcome, ClaimRequest, IdempotencyStore, Response, Result};

/// One completion of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The claim that is sealed.
    pub claim: Claim,
    /// What it is sealed with.
    pub response: Response,
    /// How long the response is replayed.
    pub retention: Duration,
}

/// A store that takes many operations at once, natively: one statement or pipeline per batch.
///
/// *Atomicity*: each item by itself, exactly as the single operation; a batch is not a transaction.
/// One answer per item, in the order of the items: an item that fails does not fail its neighbours.
/// An error of the whole batch (a lost connection) is told to each item.
///
/// Items may name one key several times; one of them at most is acquired.
#[async_trait]
pub trait BatchStore: IdempotencyStore {
    /// [`claim`](IdempotencyStore::claim) for each request; at most
    /// [`MAX_BATCH`](crate::limits::MAX_BATCH) of them, more are `InvalidInput` for each.
    ///
    /// # Cancellation
    ///
    /// As of the single operation, for each item.
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>>;

    /// [`complete`](IdempotencyStore::complete) for each completion; at most
    /// [`MAX_BATCH`](crate::limits::MAX_BATCH) of them, more are `InvalidInput` for each.
    ///
    /// # Cancellation
    ///
    /// As of the single operation, for each item.
    async fn complete_many(&self, completions: &[Completion]) -> Vec<Result<()>>;
}
