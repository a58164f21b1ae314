//! What the engine does with a key.

use std::convert::Infallible;
use std::sync::Arc;

use idem_core::{BoxError, Idempotency, IdempotencyStore, Outcome, Response};

use crate::ids::{fingerprint, key};
use crate::{Ids, Operation};

/// A run of work that takes no time: claim and completion, with the lease looked after.
#[derive(Debug)]
pub struct Run {
    engine: Idempotency,
    response: Response,
}

impl Run {
    /// Runs on this store, each with this response.
    pub fn new(store: Arc<dyn IdempotencyStore>, response: Response) -> Self {
        Self {
            engine: Idempotency::new(store),
            response,
        }
    }

    /// Whether the work ran.
    async fn is_fresh(&self, id: &str) -> Result<bool, BoxError> {
        let response = self.response.clone();
        let work = async |_work| Ok::<_, Infallible>(response);
        let key = key(id);
        match self.engine.run_response(&key, fingerprint(), work).await {
            Ok(outcome) => Ok(matches!(outcome, Outcome::Fresh(_))),
            Err(error) => Err(error.to_string().into()),
        }
    }
}

impl Operation for Run {
    type Caller = Ids;

    async fn caller(&self, _: usize) -> Result<Ids, BoxError> {
        Ok(Ids::series())
    }

    async fn step(&self, ids: &mut Ids) -> Result<(), BoxError> {
        match self.is_fresh(&ids.next_id()).await? {
            true => Ok(()),
            false => Err("a fresh key was replayed".into()),
        }
    }
}

/// A run of a key that has a result, one of many in turns.
#[derive(Debug)]
pub struct RunReplayed {
    run: Run,
    ids: Arc<[String]>,
}

impl RunReplayed {
    /// Of these keys, which are completed.
    pub fn new(store: Arc<dyn IdempotencyStore>, response: Response, ids: Arc<[String]>) -> Self {
        Self {
            run: Run::new(store, response),
            ids,
        }
    }
}

impl Operation for RunReplayed {
    /// The number of the next key.
    type Caller = usize;

    async fn caller(&self, number: usize) -> Result<usize, BoxError> {
        Ok(number)
    }

    async fn step(&self, next: &mut usize) -> Result<(), BoxError> {
        *next += 1;
        match self.run.is_fresh(&self.ids[*next % self.ids.len()]).await? {
            true => Err("a completed key ran again".into()),
            false => Ok(()),
        }
    }
}
