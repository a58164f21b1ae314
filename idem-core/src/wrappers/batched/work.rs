//! [`Work`]: the operations that are batched.

use std::future::Future;

use crate::{BatchStore, ClaimOutcome, ClaimRequest, Finish, Key, Result};

/// An operation that a store also takes in batches.
pub(super) trait Work: Clone + Send + Sync + 'static {
    type Answer: Clone + Send + 'static;

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

    fn key(&self) -> &Key {
        self.key()
    }

    fn bytes(&self) -> usize {
        256
    }

    fn is_same(&self, other: &Self) -> bool {
        let of = |request: &Self| {
            (
                request.on_stale(),
                request.on_failed(),
                *request.fingerprint(),
            )
        };
        self.key() == other.key() && of(self) == of(other)
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

impl Work for Finish {
    type Answer = ();

    fn key(&self) -> &Key {
        self.claim().key()
    }

    fn bytes(&self) -> usize {
        256 + match self {
            Self::Complete { response, .. } => {
                let headers = response.headers().iter();
                let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
                headers + response.body().len()
            }
            Self::Fail { failure, .. } => {
                failure.code().len() + failure.message().len() + failure.details().len()
            }
            Self::Release { .. } => 0,
        }
    }

    /// The first step decides how the claim ends and for how long, so each is sent by itself.
    fn is_same(&self, _: &Self) -> bool {
        false
    }

    fn granted((): &()) -> bool {
        false
    }

    async fn alone<S: BatchStore>(&self, store: &S) -> Result<()> {
        match self {
            Self::Complete {
                claim,
                response,
                retention,
            } => store.complete(claim, response, *retention).await,
            Self::Fail {
                claim,
                failure,
                retention,
            } => store.fail(claim, failure, *retention).await,
            Self::Release { claim } => store.release(claim).await,
        }
    }

    async fn many<S: BatchStore>(store: &S, works: &[Self]) -> Vec<Result<()>> {
        store.finish_many(works).await
    }
}
