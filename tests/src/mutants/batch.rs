//! The batches of a mutant.

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{BatchStore, ClaimOutcome, ClaimRequest, Error, Finish, IdempotencyStore, Result};

use super::{Bug, MutantStore};

impl MutantStore {
    async fn finish(&self, item: &Finish) -> Result<()> {
        match item {
            Finish::Complete {
                claim,
                response,
                retention,
            } => self.complete(claim, response, *retention).await,
            Finish::Fail { claim, .. } if self.bug == Bug::BatchReleasesFailures => {
                self.release(claim).await
            }
            Finish::Fail {
                claim,
                failure,
                retention,
            } => self.fail(claim, failure, *retention).await,
            Finish::Release { claim } => self.release(claim).await,
        }
    }
}

#[async_trait]
impl BatchStore for MutantStore {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let mut answers = Vec::new();
        let mut free = Vec::new();
        if self.bug == Bug::BatchChecksThenInserts {
            free.extend(requests.iter().map(|request| self.is_free(request.key())));
            self.dawdle(&[self.bug]).await;
        }
        for (at, request) in requests.iter().enumerate() {
            let stop = matches!(answers.last(), Some(Err(_))) && self.bug == Bug::BatchStopsAtError;
            let answer = match check::batch_items(requests.len()) {
                Ok(()) if stop => Err(Error::invalid_input("an item before this one was bad")),
                Ok(()) if free.get(at) == Some(&true) => Ok(self.acquire_blindly(request)),
                Ok(()) => self.claim_checked(request).await,
                Err(error) => Err(error),
            };
            answers.push(answer.map_err(|error| error.at("mutant", "claim_many")));
        }
        answers
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let mut answers: Vec<Result<()>> = Vec::new();
        for item in items {
            let answer = match check::batch_items(items.len()) {
                Ok(()) => self.finish(item).await,
                Err(error) => Err(error),
            };
            answers.push(answer);
        }
        answers
    }
}
