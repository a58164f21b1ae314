//! Many callers with one key.

use std::sync::Arc;

use idem_core::{BoxError, ClaimOutcome, IdempotencyStore};

use crate::ids::{request, response};
use crate::operations::{ClaimFresh, Replay};
use crate::{Ids, Operation};

/// A crowd of callers that all claim the same fresh key at once; over when each has its answer.
#[derive(Debug)]
pub struct Crowd<S: ?Sized = dyn IdempotencyStore> {
    /// Where.
    pub store: Arc<S>,
    /// How many.
    pub callers: usize,
}

impl<S: IdempotencyStore + ?Sized> Operation for Crowd<S> {
    type Caller = Ids;

    fn tasks(&self, _: usize) -> usize {
        1
    }

    async fn caller(&self, _: usize) -> Result<Ids, BoxError> {
        Ok(Ids::series())
    }

    async fn step(&self, ids: &mut Ids) -> Result<(), BoxError> {
        let id: Arc<str> = ids.next_id().into();
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

/// One claim of a fresh key, and one of a completed one after it.
#[derive(Debug)]
pub struct ClaimReplay {
    claim: ClaimFresh,
    replay: Replay,
}

impl ClaimReplay {
    /// On this store.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn prepared(store: Arc<dyn IdempotencyStore>) -> Result<Self, BoxError> {
        Ok(Self {
            replay: Replay::prepared(Arc::clone(&store), 100, response()).await?,
            claim: ClaimFresh(store),
        })
    }
}

impl Operation for ClaimReplay {
    type Caller = (Ids, usize);

    fn tasks(&self, _: usize) -> usize {
        1
    }

    async fn caller(&self, number: usize) -> Result<Self::Caller, BoxError> {
        Ok((Ids::series(), number))
    }

    async fn step(&self, (ids, next): &mut Self::Caller) -> Result<(), BoxError> {
        self.claim.step(ids).await?;
        self.replay.step(next).await
    }
}
