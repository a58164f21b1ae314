//! [`IdempotencyStoreExt`]: conveniences over any store.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::limits::MAX_BATCH;
use crate::{
    ClaimOutcome, ClaimRequest, Effect, Fingerprint, IdempotencyStore, Key, Response, Result,
};

/// Conveniences built from the operations of [`IdempotencyStore`]; every store has them.
#[async_trait]
pub trait IdempotencyStoreExt: IdempotencyStore {
    /// Claims the key with the defaults of [`ClaimRequest::new`].
    ///
    /// # Errors
    ///
    /// As for [`claim`](IdempotencyStore::claim). A caller that wants to retry after an error keeps
    /// the request itself: see [`claim_retrying`](Self::claim_retrying).
    async fn claim_key(&self, key: Key, fingerprint: Fingerprint) -> Result<ClaimOutcome> {
        self.claim(&ClaimRequest::new(key, fingerprint)).await
    }

    /// Claims, and retries with the same attempt id after retryable errors, with jittered back-off,
    /// until `limit` has passed. This recovers a lost answer: the store recognises the attempt.
    ///
    /// # Errors
    ///
    /// The last error when the limit has passed; an error that is not retryable, at once. Its
    /// effect is unknown if that of any try was.
    async fn claim_retrying(
        &self,
        request: &ClaimRequest,
        limit: Duration,
    ) -> Result<ClaimOutcome> {
        let mut backoff = Backoff::new(limit);
        let mut effect = Effect::None;
        loop {
            let error = match self.claim(request).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            if error.effect() != Effect::None {
                effect = error.effect();
            }
            if !error.is_retryable() || !backoff.pause().await {
                return Err(error.with_effect(effect));
            }
        }
    }

    /// Returns the stored response of a completed key.
    ///
    /// # Errors
    ///
    /// As for [`get`](IdempotencyStore::get).
    async fn response(&self, key: &Key) -> Result<Option<Response>> {
        Ok(self
            .get(key)
            .await?
            .and_then(|record| record.response().cloned()))
    }

    /// Deletes expired records in batches until there are no more; returns how many were deleted.
    ///
    /// # Errors
    ///
    /// As for [`delete_expired`](IdempotencyStore::delete_expired); records that were already
    /// deleted stay deleted.
    async fn purge_all(&self) -> Result<u64> {
        let mut total = 0;
        loop {
            let deleted = self.delete_expired(MAX_BATCH).await?;
            total += deleted;
            if deleted < u64::from(MAX_BATCH) {
                return Ok(total);
            }
        }
    }

    /// Deletes expired records beside live traffic: in batches of 1,000, with a pause after each
    /// that is nine times as long as the batch took. So it takes a tenth of one connection's time,
    /// whatever the server's load.
    ///
    /// # Errors
    ///
    /// As for [`delete_expired`](IdempotencyStore::delete_expired); records that were already
    /// deleted stay deleted.
    async fn purge_beside_traffic(&self) -> Result<u64> {
        const BATCH: u32 = 1_000;
        let mut total = 0;
        loop {
            let began = Instant::now();
            let deleted = self.delete_expired(BATCH).await?;
            total += deleted;
            if deleted < u64::from(BATCH) {
                return Ok(total);
            }
            tokio::time::sleep(began.elapsed() * 9).await;
        }
    }

    /// Fails abandoned claims in batches until there are no more; returns how many were failed.
    ///
    /// # Errors
    ///
    /// As for [`fail_abandoned`](IdempotencyStore::fail_abandoned); records that were already
    /// failed stay failed.
    async fn sweep_all(&self) -> Result<u64> {
        let mut total = 0;
        loop {
            let failed = self.fail_abandoned(MAX_BATCH).await?;
            total += failed;
            if failed < u64::from(MAX_BATCH) {
                return Ok(total);
            }
        }
    }
}

impl<S: IdempotencyStore + ?Sized> IdempotencyStoreExt for S {}
