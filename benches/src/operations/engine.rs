//! The engine's runs.

use std::convert::Infallible;
use std::sync::Arc;

use idem_core::{BoxError, Idempotency, IdempotencyStore, Outcome};

use super::Operation;
use crate::ids::{fingerprint, key, response};

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

impl Operation for Run {
    type Connection = ();

    async fn connect(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn step(&self, (): &mut (), id: &str) -> Result<(), BoxError> {
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
