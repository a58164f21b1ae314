//! Many operations in one pipeline.

use async_trait::async_trait;
use idem_core::{BatchStore, ClaimOutcome, ClaimRequest, Completion, Error, Result, check};
use redis::Value;

use crate::error::Sent;
use crate::operations::{Operations, is_acquired, is_done};
use crate::script::Call;
use crate::store::{BACKEND, RedisStore};

impl RedisStore {
    /// Sends what can be sent; of items with one key any may come first.
    async fn run_valid(
        &self,
        calls: Vec<Result<Call<'_>>>,
        wrote: fn(&Value) -> bool,
    ) -> Vec<Result<Value>> {
        let mut refused = Vec::with_capacity(calls.len());
        let mut valid = Vec::with_capacity(calls.len());
        for call in calls {
            refused.push(call.map(|call| valid.push(call)).err());
        }
        let mut answers = self
            .link
            .run_all(&valid, Sent::Write, wrote)
            .await
            .into_iter();
        let missing = || Err(Error::corrupt("an item of a batch has no answer"));
        refused
            .into_iter()
            .map(|error| error.map_or_else(|| answers.next().unwrap_or_else(missing), Err))
            .collect()
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BatchStore for RedisStore {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let calls = requests
            .iter()
            .map(|request| {
                check::batch_items(requests.len())?;
                self.operations.claim(request)
            })
            .collect();
        let answers = self.run_valid(calls, is_acquired).await;
        let answered = requests.iter().zip(answers);
        answered
            .map(|(request, answer)| {
                answer
                    .and_then(|answer| Operations::claimed(request, answer))
                    .map_err(|error| error.at(BACKEND, "claim_many"))
            })
            .collect()
    }

    async fn complete_many(&self, completions: &[Completion]) -> Vec<Result<()>> {
        let calls = completions
            .iter()
            .map(|item| {
                check::batch_items(completions.len())?;
                self.operations
                    .complete(&item.claim, &item.response, item.retention)
            })
            .collect();
        let answers = self.run_valid(calls, is_done).await.into_iter();
        answers
            .map(|answer| {
                answer
                    .and_then(|answer| Operations::done(&answer))
                    .map_err(|error| error.at(BACKEND, "complete_many"))
            })
            .collect()
    }
}
