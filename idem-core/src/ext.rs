//! [`IdempotencyStoreExt`]: conveniences over any store.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::admin::{AuditEntry, RecordCount, RecordFilter};
use crate::backend::StoredResult;
use crate::backend::forced::{audit_entry, audit_key};
use crate::backoff::Backoff;
use crate::limits::MAX_BATCH;
use crate::{
    ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Fingerprint, IdempotencyStore, Key,
    RecordAdmin, Response, Result, adopt,
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

    /// Claims; a record of an [unknown fingerprint](Fingerprint::UNKNOWN) is that of this request, and
    /// is returned whatever the request says. Its `info.fingerprint` shows that nobody has compared
    /// the requests. Such a duplicate costs a read more. Its failure is never retried, and a claim
    /// that a killed import has left is in flight until the import is repeated.
    ///
    /// # Errors
    ///
    /// As for [`claim`](IdempotencyStore::claim) and [`get`](IdempotencyStore::get).
    ///
    /// # Cancellation
    ///
    /// As for [`claim`](IdempotencyStore::claim).
    async fn claim_matching(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        adopt::claim_matching(self, request).await
    }

    /// Stores the result of a request that an [older table](crate::guide::migrations#adopting) has
    /// kept, with an [unknown fingerprint](Fingerprint::UNKNOWN). Returns `false` where the key has a
    /// record, which stays as it is, so live traffic may go on.
    ///
    /// The result of a run is its value as JSON, with the status 200 and no headers. Concurrent calls
    /// share statements: adopt many records at once.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a result or a retention over the limits; others as for
    /// [`claim`](IdempotencyStore::claim) and [`complete`](IdempotencyStore::complete). After any
    /// other error, repeat the call.
    ///
    /// # Cancellation
    ///
    /// The result is stored or not, or the key is in flight, for the retention at most; repeat the
    /// call.
    async fn adopt(&self, key: &Key, result: &StoredResult, retention: Duration) -> Result<bool> {
        adopt::adopt(self, key, result, retention).await
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
    #[doc(alias = "cleanup")]
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

    /// Counts the records that match, page by page, until it has looked at `most`.
    ///
    /// # Errors
    ///
    /// As for [`list`](RecordAdmin::list); `Misconfigured` where the store has no
    /// [`admin`](IdempotencyStore::admin).
    async fn count_records(&self, filter: &RecordFilter, most: u64) -> Result<RecordCount> {
        const PAGE: u64 = 1_000;
        let admin = admin(self.admin())?;
        let (mut matching, mut looked_at, mut cursor) = (0, 0, None);
        loop {
            let left = most.saturating_sub(looked_at).min(PAGE);
            if left == 0 {
                break;
            }
            let limit = u32::try_from(left).unwrap_or(u32::MAX);
            let page = admin.list(filter, cursor.as_ref(), limit).await?;
            matching += page.records.len() as u64;
            looked_at += u64::from(page.looked_at);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(RecordCount {
            matching,
            looked_at,
            is_complete: cursor.is_none() && most > 0,
        })
    }

    /// Returns the forced steps that the key has seen, the oldest first.
    ///
    /// # Errors
    ///
    /// As for [`get`](IdempotencyStore::get); `Corrupt` where an entry cannot be read.
    async fn history(&self, key: &Key) -> Result<Vec<AuditEntry>> {
        let mut entries = Vec::new();
        for number in 1.. {
            let Some(record) = self.get(&audit_key(key, number)?).await? else {
                break;
            };
            entries.extend(audit_entry(&record)?);
        }
        Ok(entries)
    }
}

fn admin(admin: Option<&dyn RecordAdmin>) -> Result<&dyn RecordAdmin> {
    admin.ok_or_else(|| {
        Error::new(
            ErrorKind::Misconfigured,
            Effect::None,
            "this store does not list its records: it has no `admin`",
        )
    })
}

impl<S: IdempotencyStore + ?Sized> IdempotencyStoreExt for S {}
