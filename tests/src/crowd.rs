//! Claims among concurrent callers.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{AttemptId, ClaimOutcome, ClaimRequest, IdempotencyStore, Record, Response};
use tokio::task::JoinSet;

use crate::{CaseResult, Context};

/// Keys of the other callers, and claims of each key.
const KEYS: usize = 12;
const CLAIMS: usize = 4;

const HOUR: Duration = Duration::from_secs(3600);

impl Context {
    /// Claims a key among dozens of concurrent claims of completed keys of its operation. A store
    /// that batches does so here.
    ///
    /// # Errors
    ///
    /// The store's error.
    ///
    /// # Panics
    ///
    /// Panics when another claim does not get its own result.
    pub async fn claim_in_a_crowd(
        &self,
        store: &Arc<dyn IdempotencyStore>,
        request: &ClaimRequest,
    ) -> CaseResult<ClaimOutcome> {
        let others = self.taken().await?;
        let mut crowd = JoinSet::new();
        for _ in 0..CLAIMS {
            for (number, other) in others.iter().enumerate() {
                let (store, other) = (Arc::clone(store), other.clone());
                let other = other.with_attempt(AttemptId::random());
                crowd.spawn(async move {
                    let outcome = store.claim(&other).await?;
                    let ClaimOutcome::Completed(completed) = outcome else {
                        return Err(format!("{number} was told {}", outcome.name()).into());
                    };
                    assert_eq!(completed.response.body(), number.to_string().as_bytes());
                    CaseResult::Ok(())
                });
            }
        }
        let (asking, request) = (Arc::clone(store), request.clone());
        let asked = tokio::spawn(async move { asking.claim(&request).await });
        while let Some(returned) = crowd.join_next().await {
            returned??;
        }
        Ok(asked.await??)
    }

    /// Returns claims of completed keys, each with its number as the result.
    async fn taken(&self) -> CaseResult<Vec<ClaimRequest>> {
        let mut taken = Vec::with_capacity(KEYS);
        for number in 0..KEYS {
            let other = self.request(&self.key(format!("in the crowd {number}")));
            let record = self.store().get(other.key()).await?;
            if !matches!(record, Some(Record::Completed(_))) {
                let claim = self.claim(&other).await?;
                let response = Response::new(200, number.to_string());
                self.store().complete(&claim, &response, HOUR).await?;
            }
            taken.push(other);
        }
        Ok(taken)
    }
}
