//! The batches of a mutant.

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{
    BatchStore, ClaimOutcome, ClaimRequest, Completion, Error, IdempotencyStore, Result,
};

use super::{Bug, MutantStore};

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

    async fn complete_many(&self, completions: &[Completion]) -> Vec<Result<()>> {
        let mut answers: Vec<Result<()>> = Vec::new();
        for item in completions {
            let answer = match check::batch_items(completions.len()) {
                Ok(()) => {
                    self.complete(&item.claim, &item.response, item.retention)
                        .await
                }
                Err(error) => Err(error),
            };
            answers.push(answer);
        }
        answers
    }
}
