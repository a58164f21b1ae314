//! The contract, and its batch form.

use std::time::Duration;

use async_trait::async_trait;

use super::Protected;
use super::parts::is_exempt;
use crate::{
    BatchStore, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, Finish, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result,
    WatermarkStore,
};

/// Most times that a claim is sent again because the record's pepper changed between two of them.
const MAX_TURNS: usize = 8;

/// The result of a call, as it is stored before encryption.
enum Given<'a> {
    Response(&'a Response),
    Failure(&'a Failure),
}

impl<S: IdempotencyStore> Protected<S> {
    /// Finds the answer to a claim whose first one is this.
    async fn settle(
        &self,
        request: &ClaimRequest,
        mut outcome: ClaimOutcome,
    ) -> Result<ClaimOutcome> {
        // A conflict has written nothing, so the claim can be sent again under the record's pepper.
        // Before it arrives, the record may be gone and its key claimed under another one.
        for _ in 0..MAX_TURNS {
            match self.protect_again(request, &outcome)? {
                None => return self.reveal(request, outcome).await,
                Some(again) => outcome = self.store.claim(&again).await?,
            }
        }
        let message = "the key was claimed again and again under other peppers; ask again";
        Err(Error::new(ErrorKind::Contention, Effect::None, message))
    }

    async fn claimed(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let outcome = self.store.claim(&self.protect_claim(request)?).await?;
        self.settle(request, outcome).await
    }

    async fn completed(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        if is_exempt(claim.key()) {
            return self.store.complete(claim, response, retention).await;
        }
        let form = self.forms.stored(claim.key(), response)?;
        let form = form.as_ref().unwrap_or(response);
        let sealed = self.seal_response(claim, form)?;
        let ended = self.store.complete(claim, &sealed, retention).await;
        self.repeated(claim, &Given::Response(form), ended).await
    }

    async fn failed(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        let sealed = self.protect_failure(claim, failure)?;
        let ended = self.store.fail(claim, &sealed, retention).await;
        self.repeated(claim, &Given::Failure(failure), ended).await
    }

    /// Finds out whether a claim that the store calls sealed with another result was sealed with
    /// this one under another key: the answer of the first call was lost, and the key changed, or
    /// `rewrap` came by.
    ///
    /// The store has answered that the claim owns the record. From then on the record changes by
    /// its end, and by a later acquisition, which has another token.
    async fn repeated(&self, claim: &Claim, given: &Given<'_>, ended: Result<()>) -> Result<()> {
        let error = match ended {
            Err(error) if error.kind() == ErrorKind::AlreadySealed && !is_exempt(claim.key()) => {
                error
            }
            other => return other,
        };
        // The first call may have had its effect, whatever hides it now.
        let unknown = |error: Error| error.with_effect(Effect::Unknown);
        let record = self.store.get(claim.key()).await.map_err(unknown)?;
        let Some(record) = record.filter(|record| record.info().token == claim.token()) else {
            return Err(Error::claim_lost());
        };
        let (key, token) = (claim.key(), claim.token());
        let is_same = match (record, given) {
            (Record::Completed(stored), Given::Response(given)) => {
                let stored = self.seals.open_response(key, token, stored.response);
                stored.map_err(unknown)? == **given
            }
            (Record::Failed(stored), Given::Failure(given)) => {
                let stored = self.seals.open_failure(key, token, stored.failure);
                stored.map_err(unknown)? == **given
            }
            _ => false,
        };
        if is_same { Ok(()) } else { Err(error) }
    }

    /// Names the store and the call in an error of this wrapper.
    fn at<T>(&self, operation: &'static str, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.at(self.store.backend(), operation))
    }

    fn protect_finish(&self, item: &Finish) -> Result<Finish> {
        Ok(match item.clone() {
            Finish::Complete {
                claim,
                response,
                retention,
            } => Finish::Complete {
                response: self.protect_response(&claim, &response)?,
                claim,
                retention,
            },
            Finish::Fail {
                claim,
                failure,
                retention,
            } => Finish::Fail {
                failure: self.protect_failure(&claim, &failure)?,
                claim,
                retention,
            },
            Finish::Release { claim } => Finish::Release { claim },
        })
    }

    /// As [`repeated`](Self::repeated), for an item of a batch.
    async fn repeated_finish(&self, item: &Finish, ended: Result<()>) -> Result<()> {
        if ended.is_ok() {
            return ended;
        }
        match item {
            Finish::Complete {
                claim, response, ..
            } => {
                let form = self.forms.stored(claim.key(), response)?;
                let given = Given::Response(form.as_ref().unwrap_or(response));
                self.repeated(claim, &given, ended).await
            }
            Finish::Fail { claim, failure, .. } => {
                self.repeated(claim, &Given::Failure(failure), ended).await
            }
            Finish::Release { .. } => ended,
        }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore> IdempotencyStore for Protected<S> {
    fn backend(&self) -> &'static str {
        self.store.backend()
    }

    fn limits(&self) -> Limits {
        self.own_limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        self.store.checkpoints().map(|_| self as _)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        self.store.watermarks()
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        self.store.admin().map(|_| self as _)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.at("claim", self.claimed(request).await)
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.at("complete", self.completed(claim, response, retention).await)
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.at("fail", self.failed(claim, failure, retention).await)
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.store.release(claim).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.store.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        match self.store.get(key).await? {
            Some(record) => {
                let record = self.reveal_record(key, record).await;
                self.at("get", record).map(Some)
            }
            None => Ok(None),
        }
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.store.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.store.fail_abandoned(limit).await
    }
}

/// The items of a batch that can be sent, and for each item the error that keeps it back.
struct Split<P> {
    ready: Vec<P>,
    refused: Vec<Option<Error>>,
}

impl<P> Split<P> {
    fn of<I>(items: &[I], protect: impl Fn(&I) -> Result<P>) -> Self {
        let (mut ready, mut refused) = (Vec::new(), Vec::with_capacity(items.len()));
        for item in items {
            let protected = protect(item).map(|item| ready.push(item));
            refused.push(protected.err());
        }
        Self { ready, refused }
    }

    /// Returns one answer for each item, from those for the items that were sent.
    fn answers<T>(self, answers: Vec<Result<T>>) -> impl Iterator<Item = Result<T>> {
        let mut answers = answers.into_iter();
        let answer = move |refused: Option<Error>| match refused {
            Some(error) => Err(error),
            None => answers.next().unwrap_or_else(|| Err(unanswered())),
        };
        self.refused.into_iter().map(answer)
    }
}

/// The error of an item that a store has left out.
fn unanswered() -> Error {
    let message = "the store gave a batch fewer answers than it had items";
    Error::new(ErrorKind::Other, Effect::Unknown, message)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: BatchStore> BatchStore for Protected<S> {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let split = Split::of(requests, |request| self.protect_claim(request));
        let outcomes = self.store.claim_many(&split.ready).await;
        let mut answers = Vec::with_capacity(requests.len());
        for (request, outcome) in requests.iter().zip(split.answers(outcomes)) {
            let answer = match outcome {
                Ok(outcome) => self.settle(request, outcome).await,
                Err(error) => Err(error),
            };
            answers.push(self.at("claim_many", answer));
        }
        answers
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let split = Split::of(items, |item| self.protect_finish(item));
        let ends = self.store.finish_many(&split.ready).await;
        let mut answers = Vec::with_capacity(items.len());
        for (item, ended) in items.iter().zip(split.answers(ends)) {
            let answer = self.repeated_finish(item, ended).await;
            answers.push(self.at("finish_many", answer));
        }
        answers
    }
}
