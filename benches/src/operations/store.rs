//! The calls of a store, and the engine's runs.

use std::convert::Infallible;
use std::sync::Arc;

use idem_core::{BoxError, ClaimOutcome, Idempotency, IdempotencyStore, Outcome};
use tokio::sync::Mutex;

use super::{Call, Keys, Life};
use crate::arena::Arena;
use crate::ids::{DAY, fingerprint, key, request, response};

/// The store's calls for one key.
pub(crate) struct Calls<S: ?Sized = dyn IdempotencyStore>(pub(crate) Arc<S>, pub(crate) Life);

impl<S: IdempotencyStore + ?Sized> Call for Calls<S> {
    async fn call(&self, id: &str) -> Result<(), BoxError> {
        let Self(store, life) = self;
        match (life, store.claim(&request(id)).await?) {
            (Life::Claim, ClaimOutcome::Acquired(_))
            | (Life::Replay, ClaimOutcome::Completed(_)) => Ok(()),
            (Life::Complete(response), ClaimOutcome::Acquired(claim)) => {
                Ok(store.complete(&claim, response, DAY).await?)
            }
            (_, outcome) => Err(format!("a claim was answered {}", outcome.name()).into()),
        }
    }
}

/// Many concurrent claims of a fresh key; it ends when each has its answer.
pub(crate) struct ConcurrentClaims {
    pub(crate) store: Arc<dyn IdempotencyStore>,
    pub(crate) callers: usize,
}

impl Call for ConcurrentClaims {
    const MOST_TASKS: usize = 1;

    async fn call(&self, id: &str) -> Result<(), BoxError> {
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
    claim: Calls,
    replay: Calls,
    completed: Mutex<Keys>,
}

impl ClaimReplay {
    pub(crate) async fn prepared(store: Arc<dyn IdempotencyStore>) -> Result<Self, BoxError> {
        let completed = Keys::used(&Calls(Arc::clone(&store), Life::complete()), 100).await?;
        Ok(Self {
            claim: Calls(Arc::clone(&store), Life::Claim),
            replay: Calls(store, Life::Replay),
            completed: Mutex::new(completed.turns(0)),
        })
    }
}

impl Call for ClaimReplay {
    const MOST_TASKS: usize = 1;

    async fn call(&self, id: &str) -> Result<(), BoxError> {
        self.claim.call(id).await?;
        let mut completed = self.completed.lock().await;
        self.replay.call(&completed.next_id()).await
    }
}

/// Opening the store, and a claim of a fresh key.
pub(crate) struct ColdStart(pub(crate) Arena);

impl Call for ColdStart {
    async fn call(&self, id: &str) -> Result<(), BoxError> {
        let store = self.0.another().await?;
        Calls(store, Life::Claim).call(id).await
    }
}

/// A run of work that takes no time: claim and completion, with the heartbeat of the lease.
pub(crate) struct Run {
    engine: Idempotency,
    /// Whether the keys are fresh, so that the work runs.
    is_fresh: bool,
}

impl Run {
    pub(crate) fn new(store: Arc<dyn IdempotencyStore>, is_fresh: bool) -> Self {
        Self {
            engine: Idempotency::new(store),
            is_fresh,
        }
    }
}

impl Call for Run {
    async fn call(&self, id: &str) -> Result<(), BoxError> {
        let work = async |_work| Ok::<_, Infallible>(response());
        let key = key(id);
        let outcome = self.engine.run_response(&key, fingerprint(), work).await;
        let outcome = outcome.map_err(|error| error.to_string())?;
        match matches!(outcome, Outcome::Fresh(_)) == self.is_fresh {
            true => Ok(()),
            false => Err("a fresh key was replayed, or a completed one ran again".into()),
        }
    }
}
