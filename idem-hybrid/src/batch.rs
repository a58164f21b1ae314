//! Batches: the cache answers what it can, the database the rest in one batch.

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use idem_core::backend::check;
use idem_core::{BatchStore, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Finish, Result};

use crate::front::{CacheAnswer, Miss};
use crate::store::{BACKEND, completed, replay};
use crate::{Cache, HybridStore};

/// How many calls of the cache one batch runs at once.
const CALLS: usize = 32;

/// The cache's answer about an item.
enum Item<T> {
    Answered(ClaimOutcome),
    /// For the database; without a miss where the cache was not read.
    Open(Option<Miss<T>>),
}

impl<C: Cache, S: BatchStore> HybridStore<C, S> {
    async fn ask_for_all(&self, requests: &[ClaimRequest]) -> Vec<Item<C::Ticket>> {
        let reads: Vec<_> = requests
            .iter()
            .map(|request| self.ask_for(request))
            .collect();
        stream::iter(reads).buffered(CALLS).collect().await
    }

    async fn ask_for(&self, request: &ClaimRequest) -> Item<C::Ticket> {
        if check::claim(request, &self.database.limits()).is_err() {
            return Item::Open(None);
        }
        match self.front.ask(request.key()).await {
            CacheAnswer::Hit(record) => Item::Answered(replay(*record, request)),
            CacheAnswer::Miss(miss) => Item::Open(Some(miss)),
        }
    }

    /// Fills the database's answers in where the cache had none.
    fn fill_in(
        &self,
        requests: &[ClaimRequest],
        items: Vec<Item<C::Ticket>>,
        answers: Vec<Result<ClaimOutcome>>,
    ) -> Vec<Result<ClaimOutcome>> {
        let mut answers = answers.into_iter();
        let answer = |(request, item): (&ClaimRequest, Item<C::Ticket>)| match item {
            Item::Answered(outcome) => Ok(outcome),
            Item::Open(miss) => {
                let outcome = answers.next().unwrap_or_else(|| Err(no_answer()))?;
                if let Some(miss) = miss {
                    self.learn(request.key(), miss, completed(&outcome));
                }
                Ok(outcome)
            }
        };
        requests.iter().zip(items).map(answer).collect()
    }
}

fn no_answer() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        Effect::Unknown,
        "the database answered fewer items than it was asked",
    )
    .at(BACKEND, "claim_many")
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<C: Cache, S: BatchStore> BatchStore for HybridStore<C, S> {
    /// Always reads the cache first, whatever [`Reads`](crate::Reads) says.
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        if check::batch_items(requests.len()).is_err() {
            return self.database.claim_many(requests).await;
        }
        let items = self.ask_for_all(requests).await;
        let open: Vec<_> = requests
            .iter()
            .zip(&items)
            .filter(|(_, item)| matches!(item, Item::Open(_)))
            .map(|(request, _)| request.clone())
            .collect();
        let answers = if open.is_empty() {
            Vec::new()
        } else {
            self.database.claim_many(&open).await
        };
        self.fill_in(requests, items, answers)
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let answers = self.database.finish_many(items).await;
        let released = items.iter().zip(&answers).filter(|(item, answer)| {
            // As `release` does.
            matches!(item, Finish::Release { .. }) && answer.is_ok()
        });
        let forgets: Vec<_> = released
            .map(|(item, _)| self.front.forget(item.claim().key()))
            .collect();
        stream::iter(forgets)
            .for_each_concurrent(CALLS, |forget| forget)
            .await;
        answers
    }
}
