//! Many operations in one pipeline.

use async_trait::async_trait;
use idem_core::backend::{FinalResult, check};
use idem_core::{
    BatchStore, ClaimOutcome, ClaimRequest, Error, Finish, IdempotencyStore as _, Result,
};
use redis::Value;

use crate::error::Access;
use crate::operations::{Operations, is_acquired, is_done};
use crate::script::Call;
use crate::store::{BACKEND, RedisStore};

impl RedisStore {
    /// Sends the valid items; of items with the same key, any may come first.
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
            .run_all(&valid, Access::Write, wrote)
            .await
            .into_iter();
        refused
            .into_iter()
            .map(|error| error.map_or_else(|| answers.next().unwrap_or_else(missing), Err))
            .collect()
    }
}

fn missing<T>() -> Result<T> {
    Err(Error::corrupt("an item of a batch has no answer"))
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BatchStore for RedisStore {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let answered = if check::batch_items(requests.len()).is_ok() {
            self.claim_many_fresh(requests).await
        } else {
            requests.iter().map(|_| None).collect()
        };
        let open: Vec<_> = requests
            .iter()
            .zip(&answered)
            .filter_map(|(request, answer)| answer.is_none().then_some(request))
            .collect();
        let calls = open
            .iter()
            .map(|request| {
                check::batch_items(requests.len())?;
                self.operations.claim(request)
            })
            .collect();
        let decided = self.run_valid(calls, is_acquired).await;
        let mut decided = open
            .into_iter()
            .zip(decided)
            .map(|(request, answer)| Operations::claimed(request, answer?));
        answered
            .into_iter()
            .map(|answer| {
                answer
                    .or_else(|| decided.next())
                    .unwrap_or_else(missing)
                    .map_err(|error| error.at(BACKEND, "claim_many"))
            })
            .collect()
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let limits = self.limits();
        let calls = items
            .iter()
            .map(|item| {
                check::batch_items(items.len())?;
                let result = FinalResult::new(item, &limits)?;
                Ok(self.operations.finish(item.claim(), &result))
            })
            .collect();
        let answers = self.run_valid(calls, is_done).await.into_iter();
        answers
            .map(|answer| {
                answer
                    .and_then(|answer| Operations::done(&answer))
                    .map_err(|error| error.at(BACKEND, "finish_many"))
            })
            .collect()
    }
}
