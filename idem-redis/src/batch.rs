//! Many operations in one pipeline.

use async_trait::async_trait;
use idem_core::backend::{FinalResult, check};
use idem_core::{
    BatchStore, ClaimOutcome, ClaimRequest, Error, Finish, IdempotencyStore as _, Result,
};
use redis::Value;

use crate::ended::EndedClaim;
use crate::error::Access;
use crate::operations::{Operations, is_done, is_settled};
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

impl RedisStore {
    /// Ends the held claims among them, many by one script; returns no answer for the others, which
    /// are ended one by one.
    async fn finish_many_held(
        &self,
        items: &[Finish],
        results: &[Result<FinalResult>],
    ) -> Vec<Option<Result<()>>> {
        let mut answers: Vec<_> = items.iter().map(|_| None).collect();
        let valid = items.iter().zip(results).enumerate();
        let (indexes, ends): (Vec<_>, Vec<_>) = valid
            .filter_map(|(index, (item, result))| {
                let result = result.as_ref().ok()?;
                let end = EndedClaim::new(item.claim(), result, &self.operations);
                Some((index, end))
            })
            .unzip();
        let ended = self.shortcuts.many.clone().write(ends).await;
        for (index, answer) in indexes.into_iter().zip(ended) {
            answers[index] = answer.map(|now| now.map(drop)).transpose();
        }
        answers
    }
}

fn missing<T>() -> Result<T> {
    Err(Error::corrupt("an item of a batch has no answer"))
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BatchStore for RedisStore {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let limits = self.limits();
        let checked: Vec<_> = requests
            .iter()
            .map(|request| {
                check::batch_items(requests.len())?;
                check::claim(request, &limits)
            })
            .collect();
        let answered = self.claim_many_fresh(requests, &checked).await;
        let each = requests.iter().zip(checked).zip(&answered);
        let (open, calls): (Vec<_>, Vec<_>) = each
            .filter(|(_, answer)| answer.is_none())
            .map(|((request, checked), _)| {
                let call = checked.map(|checked| self.operations.claim(request, &checked));
                (request, call)
            })
            .unzip();
        let decided = self.run_valid(calls, is_settled).await;
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
        let results: Vec<_> = items
            .iter()
            .map(|item| {
                check::batch_items(items.len())?;
                FinalResult::new(item, &limits)
            })
            .collect();
        let ended = self.finish_many_held(items, &results).await;
        let open = items.iter().zip(results).zip(&ended);
        let calls = open
            .filter(|(_, ended)| ended.is_none())
            .map(|((item, result), _)| Ok(self.operations.finish(item.claim(), &result?)))
            .collect();
        let answers = self.run_valid(calls, is_done).await.into_iter();
        let mut decided = answers.map(|answer| Operations::done(&answer?));
        ended
            .into_iter()
            .map(|answer| {
                answer
                    .or_else(|| decided.next())
                    .unwrap_or_else(missing)
                    .map_err(|error| error.at(BACKEND, "finish_many"))
            })
            .collect()
    }
}
