//! [`Work`]: the operations that are batched.

use std::future::Future;

use crate::wrappers::flight::Flight;
use crate::{BatchStore, ClaimOutcome, ClaimRequest, Completion, Key, Result};

/// An operation that a store also takes in batches.
pub(super) trait Work: Clone + Send + Sync + 'static {
    type Answer: Clone + Send + 'static;

    /// Its name in errors.
    const NAME: &'static str;

    fn key(&self) -> &Key;

    /// Returns about how many bytes it has on the wire.
    fn bytes(&self) -> usize;

    /// Returns whether both get the same answer, except when it was [`granted`](Self::granted).
    fn is_same(&self, other: &Self) -> bool;

    /// Returns whether the answer is for one caller only.
    fn granted(answer: &Self::Answer) -> bool;

    fn alone<S: BatchStore>(&self, store: &S) -> impl Future<Output = Result<Self::Answer>> + Send;

    fn many<S: BatchStore>(
        store: &S,
        works: &[Self],
    ) -> impl Future<Output = Vec<Result<Self::Answer>>> + Send;
}

impl Work for ClaimRequest {
    type Answer = ClaimOutcome;

    const NAME: &'static str = "claim";

    fn key(&self) -> &Key {
        self.key()
    }

    fn bytes(&self) -> usize {
        256
    }

    fn is_same(&self, other: &Self) -> bool {
        Flight::of(self) == Flight::of(other)
    }

    fn granted(answer: &ClaimOutcome) -> bool {
        matches!(answer, ClaimOutcome::Acquired(_))
    }

    async fn alone<S: BatchStore>(&self, store: &S) -> Result<ClaimOutcome> {
        store.claim(self).await
    }

    async fn many<S: BatchStore>(store: &S, works: &[Self]) -> Vec<Result<ClaimOutcome>> {
        store.claim_many(works).await
    }
}

impl Work for Completion {
    type Answer = ();

    const NAME: &'static str = "complete";

    fn key(&self) -> &Key {
        self.claim.key()
    }

    fn bytes(&self) -> usize {
        let headers = self.response.headers().iter();
        let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
        256 + headers + self.response.body().len()
    }

    /// The first completion decides which retention stands, so each is made by itself.
    fn is_same(&self, _: &Self) -> bool {
        false
    }

    fn granted((): &()) -> bool {
        false
    }

    async fn alone<S: BatchStore>(&self, store: &S) -> Result<()> {
        store
            .complete(&self.claim, &self.response, self.retention)
            .await
    }

    async fn many<S: BatchStore>(store: &S, works: &[Self]) -> Vec<Result<()>> {
        store.complete_many(works).await
    }
}
