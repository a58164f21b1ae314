//! What a store is asked.

use std::sync::Arc;
use std::time::Duration;

use idem_conformance::Harness;
use idem_core::{BoxError, ClaimOutcome, IdempotencyStore, Response};

use crate::ids::request;
use crate::{Ids, Operation};

/// How long responses are replayed.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn other(outcome: &ClaimOutcome) -> BoxError {
    format!("a claim was answered {}", outcome.name()).into()
}

/// A claim of a key that nobody has claimed.
#[derive(Debug)]
pub struct ClaimFresh<S: ?Sized = dyn IdempotencyStore>(pub Arc<S>);

impl<S: IdempotencyStore + ?Sized> Operation for ClaimFresh<S> {
    type Caller = Ids;

    async fn caller(&self, _: usize) -> Result<Ids, BoxError> {
        Ok(Ids::series())
    }

    async fn step(&self, ids: &mut Ids) -> Result<(), BoxError> {
        match self.0.claim(&request(&ids.next_id())).await? {
            ClaimOutcome::Acquired(_) => Ok(()),
            outcome => Err(other(&outcome)),
        }
    }
}

/// The life of a key: a claim, then its response.
#[derive(Debug)]
pub struct ClaimComplete<S: ?Sized = dyn IdempotencyStore> {
    /// Where.
    pub store: Arc<S>,
    /// With what.
    pub response: Response,
}

impl<S: IdempotencyStore + ?Sized> ClaimComplete<S> {
    async fn life(&self, id: &str) -> Result<(), BoxError> {
        match self.store.claim(&request(id)).await? {
            ClaimOutcome::Acquired(claim) => {
                Ok(self.store.complete(&claim, &self.response, DAY).await?)
            }
            outcome => Err(other(&outcome)),
        }
    }
}

impl<S: IdempotencyStore + ?Sized> Operation for ClaimComplete<S> {
    type Caller = Ids;

    async fn caller(&self, _: usize) -> Result<Ids, BoxError> {
        Ok(Ids::series())
    }

    async fn step(&self, ids: &mut Ids) -> Result<(), BoxError> {
        self.life(&ids.next_id()).await
    }
}

/// A claim of a completed key, one of many in turns.
#[derive(Debug)]
pub struct Replay<S: ?Sized = dyn IdempotencyStore> {
    store: Arc<S>,
    ids: Arc<[String]>,
}

impl<S: IdempotencyStore + ?Sized> Replay<S> {
    /// Completes so many keys, of which each is replayed then.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn prepared(
        store: Arc<S>,
        keys: usize,
        response: Response,
    ) -> Result<Self, BoxError> {
        let life = ClaimComplete {
            store: Arc::clone(&store),
            response,
        };
        let mut ids = Ids::series();
        let ids: Vec<_> = (0..keys).map(|_| ids.next_id()).collect();
        for id in &ids {
            life.life(id).await?;
        }
        Ok(Self {
            store,
            ids: ids.into(),
        })
    }

    /// Replays each key once.
    ///
    /// # Errors
    ///
    /// The store's; that a key is not completed.
    pub async fn once_each(&self) -> Result<(), BoxError> {
        for next in 0..self.ids.len() {
            self.step(&mut next.clone()).await?;
        }
        Ok(())
    }

    /// The keys.
    #[must_use]
    pub fn ids(&self) -> Arc<[String]> {
        Arc::clone(&self.ids)
    }

    /// The same keys through another handle.
    #[must_use]
    pub fn through<T: IdempotencyStore + ?Sized>(&self, store: Arc<T>) -> Replay<T> {
        Replay {
            store,
            ids: Arc::clone(&self.ids),
        }
    }
}

impl<S: IdempotencyStore + ?Sized> Operation for Replay<S> {
    /// The number of the next key.
    type Caller = usize;

    async fn caller(&self, number: usize) -> Result<usize, BoxError> {
        Ok(number)
    }

    async fn step(&self, next: &mut usize) -> Result<(), BoxError> {
        *next += 1;
        let id = &self.ids[*next % self.ids.len()];
        match self.store.claim(&request(id)).await? {
            ClaimOutcome::Completed(_) => Ok(()),
            outcome => Err(other(&outcome)),
        }
    }
}

/// A new handle, and its first claim.
pub struct ColdStart {
    /// Who opens it.
    pub harness: Arc<dyn Harness>,
    /// Of which namespace.
    pub namespace: String,
}

impl Operation for ColdStart {
    type Caller = Ids;

    async fn caller(&self, _: usize) -> Result<Ids, BoxError> {
        Ok(Ids::series())
    }

    async fn step(&self, ids: &mut Ids) -> Result<(), BoxError> {
        let store = self.harness.open(&self.namespace).await?;
        ClaimFresh(store).step(ids).await
    }
}

impl std::fmt::Debug for ColdStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColdStart").finish_non_exhaustive()
    }
}
