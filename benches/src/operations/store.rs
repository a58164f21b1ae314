//! The calls of a store.

use std::sync::Arc;

use idem_core::{BoxError, ClaimOutcome, IdempotencyStore, Response};
use tokio::sync::Mutex;

use super::{Keys, Operation, Turns};
use crate::Backend;
use crate::ids::{DAY, request, response};

fn unexpected(outcome: &ClaimOutcome) -> BoxError {
    format!("a claim was answered {}", outcome.name()).into()
}

/// A claim of a fresh key.
pub(crate) struct Claims<S: ?Sized = dyn IdempotencyStore> {
    store: Arc<S>,
    /// The response that completes the claim, if there is one.
    response: Option<Response>,
}

impl<S: IdempotencyStore + ?Sized> Claims<S> {
    /// Claims only.
    pub(crate) fn fresh(store: Arc<S>) -> Self {
        Self {
            store,
            response: None,
        }
    }

    /// Runs the whole life of a key.
    pub(crate) fn completed(store: Arc<S>) -> Self {
        Self::with_response(store, response())
    }

    /// Runs the whole life of a key, with this response.
    pub(crate) fn with_response(store: Arc<S>, response: Response) -> Self {
        Self {
            store,
            response: Some(response),
        }
    }
}

impl<S: IdempotencyStore + ?Sized> Operation for Claims<S> {
    type Connection = ();

    async fn connect(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn step(&self, (): &mut (), id: &str) -> Result<(), BoxError> {
        match (self.store.claim(&request(id)).await?, &self.response) {
            (ClaimOutcome::Acquired(_), None) => Ok(()),
            (ClaimOutcome::Acquired(claim), Some(response)) => {
                Ok(self.store.complete(&claim, response, DAY).await?)
            }
            (outcome, _) => Err(unexpected(&outcome)),
        }
    }
}

/// A claim of a completed key.
pub(crate) struct Replay<S: ?Sized = dyn IdempotencyStore>(pub(crate) Arc<S>);

impl<S: IdempotencyStore + ?Sized> Operation for Replay<S> {
    type Connection = ();

    async fn connect(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn step(&self, (): &mut (), id: &str) -> Result<(), BoxError> {
        match self.0.claim(&request(id)).await? {
            ClaimOutcome::Completed(_) => Ok(()),
            outcome => Err(unexpected(&outcome)),
        }
    }
}

/// Many concurrent claims of a fresh key; it ends when each has its answer.
pub(crate) struct Crowd {
    pub(crate) store: Arc<dyn IdempotencyStore>,
    pub(crate) callers: usize,
}

impl Operation for Crowd {
    type Connection = ();

    fn tasks(&self, _: usize) -> usize {
        1
    }

    async fn connect(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn step(&self, (): &mut (), id: &str) -> Result<(), BoxError> {
        let id: Arc<str> = id.into();
        let claims: Vec<_> = (0..self.callers)
            .map(|_| {
                let (store, id) = (Arc::clone(&self.store), Arc::clone(&id));
                tokio::spawn(async move { store.claim(&request(&id)).await })
            })
            .collect();
        let mut winners = 0;
        for claim in claims {
            winners += u32::from(matches!(claim.await??, ClaimOutcome::Acquired(_)));
        }
        match winners {
            1 => Ok(()),
            winners => Err(format!("{winners} winners").into()),
        }
    }
}

/// A claim of a fresh key, then one of a completed key.
pub(crate) struct ClaimReplay {
    claims: Claims,
    replay: Replay,
    completed: Mutex<Turns>,
}

impl ClaimReplay {
    pub(crate) async fn prepared(store: Arc<dyn IdempotencyStore>) -> Result<Self, BoxError> {
        let completed = Keys::used(&Claims::completed(Arc::clone(&store)), 100).await?;
        Ok(Self {
            claims: Claims::fresh(Arc::clone(&store)),
            replay: Replay(store),
            completed: Mutex::new(completed.turns(0)),
        })
    }
}

impl Operation for ClaimReplay {
    type Connection = ();

    fn tasks(&self, _: usize) -> usize {
        1
    }

    async fn connect(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn step(&self, (): &mut (), id: &str) -> Result<(), BoxError> {
        self.claims.step(&mut (), id).await?;
        let mut completed = self.completed.lock().await;
        self.replay.step(&mut (), &completed.next_id()).await
    }
}

/// Opening the store, and a claim of a fresh key.
pub(crate) struct ColdStart {
    pub(crate) backend: Backend,
    pub(crate) namespace: String,
}

impl Operation for ColdStart {
    type Connection = ();

    async fn connect(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn step(&self, (): &mut (), id: &str) -> Result<(), BoxError> {
        let store = self.backend.harness.open(&self.namespace).await?;
        Claims::fresh(store).step(&mut (), id).await
    }
}
