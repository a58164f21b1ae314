//! Many operations at once.
//!
//! DynamoDB has no conditional writes in batches, except in transactions, where one refusal would
//! undo them all. So each item is a request of its own, many at a time.

use std::future::Future;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use idem_core::backend::{FinalResult, check};
use idem_core::{BatchStore, ClaimOutcome, ClaimRequest, Finish, Result};

use crate::operations::Operations;
use crate::store::{BACKEND, DynamoStore};

/// Requests at a time; the SDK opens a connection for each.
const AT_ONCE: usize = 64;

/// Runs a request for each item, and returns the answers in the order of the items.
async fn each<T, F>(requests: Vec<F>) -> Vec<Result<T>>
where
    F: Future<Output = Result<T>> + Send,
{
    stream::iter(requests).buffered(AT_ONCE).collect().await
}

impl Operations {
    /// Each item has its own time limit, from when it is sent.
    async fn claim_one(&self, request: &ClaimRequest, items: usize) -> Result<ClaimOutcome> {
        check::batch_items(items)?;
        self.claim(&self.session(), request).await
    }

    async fn finish_one(&self, item: &Finish, items: usize) -> Result<()> {
        check::batch_items(items)?;
        let result = FinalResult::new(item, &self.config.limits())?;
        self.finish(&self.session(), item.claim(), &result).await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BatchStore for DynamoStore {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let items = requests.len();
        let claims = requests.iter().map(|request| async move {
            let claimed = self.operations.claim_one(request, items).await;
            claimed.map_err(|error| error.at(BACKEND, "claim_many"))
        });
        each(claims.collect()).await
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let count = items.len();
        let ends = items.iter().map(|item| async move {
            let finished = self.operations.finish_one(item, count).await;
            finished.map_err(|error| error.at(BACKEND, "finish_many"))
        });
        each(ends.collect()).await
    }
}
