//! Results from an older table of the application's: see [`adopt`](crate::IdempotencyStoreExt::adopt).

use std::time::Duration;

use crate::backend::{StoredResult, check};
use crate::digest::length_prefixed;
use crate::{
    AttemptId, ClaimOutcome, ClaimRequest, ErrorKind, Fingerprint, IdempotencyStore, Key, Result,
};

/// See [`IdempotencyStoreExt::adopt`](crate::IdempotencyStoreExt::adopt).
pub(crate) async fn adopt<S: IdempotencyStore + ?Sized>(
    store: &S,
    key: &Key,
    result: &StoredResult,
    retention: Duration,
) -> Result<bool> {
    match result {
        StoredResult::Response(response) => check::response_fits(response, &store.limits())?,
        StoredResult::Failure(failure) => check::failure(failure, &store.limits()).map(drop)?,
    }
    // A repeated import gets back what a killed one has left. No request takes it over, because none
    // has this fingerprint: the work has run.
    let parts = ["idem/adopt/1", key.scope(), key.operation(), key.id()];
    let digest = length_prefixed(parts.map(str::as_bytes));
    let mut attempt = [0; 16];
    attempt.copy_from_slice(&digest[..16]);
    let request = ClaimRequest::new(key.clone(), Fingerprint::UNKNOWN)
        .with_attempt(AttemptId::from_bytes(attempt))
        .with_retention(retention);
    let Some(claim) = store.claim(&request).await?.acquired() else {
        return Ok(false);
    };
    let sealed = match result {
        StoredResult::Response(response) => store.complete(&claim, response, retention).await,
        StoredResult::Failure(failure) => store.fail(&claim, failure, retention).await,
    };
    match sealed {
        // Another import of the same key was faster.
        Err(error) if error.kind() == ErrorKind::AlreadySealed => Ok(false),
        sealed => sealed.map(|()| true),
    }
}

/// See [`IdempotencyStoreExt::claim_matching`](crate::IdempotencyStoreExt::claim_matching).
pub(crate) async fn claim_matching<S: IdempotencyStore + ?Sized>(
    store: &S,
    request: &ClaimRequest,
) -> Result<ClaimOutcome> {
    loop {
        match store.claim(request).await? {
            ClaimOutcome::Conflict(conflict) if conflict.info.fingerprint.is_unknown() => {}
            outcome => return Ok(outcome),
        }
        // Where the record has gone since, the key is free, or another caller's.
        if let Some(record) = store.get(request.key()).await?
            && record.info().fingerprint.is_unknown()
        {
            let own = record.info().fingerprint;
            return Ok(ClaimOutcome::from_record(record, &own));
        }
    }
}
