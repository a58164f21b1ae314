//! A pointer to a store is a store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    BatchStore, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Failure, Finish,
    IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result, WatermarkStore,
};

macro_rules! forward {
    ($pointer:ident) => {
        #[deny(clippy::missing_trait_methods)]
        #[async_trait]
        impl<S: IdempotencyStore + ?Sized> IdempotencyStore for $pointer<S> {
            fn backend(&self) -> &'static str {
                (**self).backend()
            }

            fn limits(&self) -> Limits {
                (**self).limits()
            }

            fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
                (**self).checkpoints()
            }

            fn watermarks(&self) -> Option<&dyn WatermarkStore> {
                (**self).watermarks()
            }

            fn admin(&self) -> Option<&dyn RecordAdmin> {
                (**self).admin()
            }

            async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
                (**self).claim(request).await
            }

            async fn complete(
                &self,
                claim: &Claim,
                response: &Response,
                retention: Duration,
            ) -> Result<()> {
                (**self).complete(claim, response, retention).await
            }

            async fn fail(
                &self,
                claim: &Claim,
                failure: &Failure,
                retention: Duration,
            ) -> Result<()> {
                (**self).fail(claim, failure, retention).await
            }

            async fn release(&self, claim: &Claim) -> Result<()> {
                (**self).release(claim).await
            }

            async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
                (**self).renew(claim, lease).await
            }

            async fn get(&self, key: &Key) -> Result<Option<Record>> {
                (**self).get(key).await
            }

            async fn delete_expired(&self, limit: u32) -> Result<u64> {
                (**self).delete_expired(limit).await
            }

            async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
                (**self).fail_abandoned(limit).await
            }
        }

        #[deny(clippy::missing_trait_methods)]
        #[async_trait]
        impl<S: BatchStore + ?Sized> BatchStore for $pointer<S> {
            async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
                (**self).claim_many(requests).await
            }

            async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
                (**self).finish_many(items).await
            }
        }
    };
}

forward!(Arc);
forward!(Box);
