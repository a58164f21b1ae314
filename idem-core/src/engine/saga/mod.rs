//! [`Saga`]: steps that each run once, and are undone in reverse order when one cannot be done.
//!
//! ```
//! use idem_core::engine::{Saga, SagaEnd, SagaStep, StepError};
//! use idem_core::{Idempotency, Key, MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let order = Saga::new()
//!     .step("reserve", async |step: SagaStep<u32>| Ok(format!("seat {}", step.input())))
//!     .undone_by(async |_: SagaStep<u32>| Ok(()))
//!     .step("charge", async |_| Err::<(), _>(StepError::permanent("the card is refused")));
//!
//! let idem = Idempotency::new(MemoryStore::new());
//! let key = Key::new("tenant-7", "order", "8f14e45f")?;
//! let end = order.run(&idem, &key, 7).await?.into_inner();
//! assert!(matches!(end, SagaEnd::Compensated { failed_step, .. } if failed_step == "charge"));
//! # Ok(())
//! # }
//! ```
//!
//! # What happens in a run
//!
//! The saga holds its own key while it runs, so that no other run goes on with it at the same time.
//! Each step, and each compensation, is a run of its own under a key that is derived from the
//! saga's and the step's name: a sealed step is not run again. A saga may be interrupted by a kill,
//! a lost store or a temporary error. Its next run skips the sealed steps and goes on behind them,
//! forwards or backwards.
//!
//! | a step | consequence |
//! | --- | --- |
//! | returns `Ok` | its value is sealed, the next step begins |
//! | returns [`StepError::Temporary`] | its key is released; the run ends with [`SagaStop::Step`]; the next run tries the step again |
//! | returns [`StepError::Permanent`] | that is sealed; the steps before it are undone, the last one first |
//! | is killed | the operation's [`StalePolicy`](crate::StalePolicy): done again, or recorded as abandoned |
//! | is found recorded as failed (abandoned, cancelled, panicked, not storable) | it may have happened: it is undone with the steps before it |
//!
//! A compensation that fails is released and reported in [`SagaStop::Compensation`]; the others
//! still run. The next run of the saga tries it again.
//!
//! # Requirements
//!
//! * A step that was killed after its effect and before its seal runs again under
//!   [`StalePolicy::TakeOver`](crate::StalePolicy::TakeOver). So give
//!   [`Work::derive`](crate::Work::derive)d keys to the systems that it calls, or seal its claim in
//!   its own transaction with [`SagaStep::response`].
//! * A compensation has to tolerate that its step did not happen, when that is unknown.
//! * The operation's retention has to be longer than the longest time after which an interrupted
//!   saga is run again: a step whose record is gone runs again.
//! * A name is a step's identity. Do not give it to another step while sagas are under way.

mod end;
mod execution;
mod step;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;

use serde::Serialize;

use crate::{Error, Result};

pub use end::{NotUndone, SagaEnd, SagaStop};
pub use step::{SagaStep, StepError};

use step::{Step, boxed};

/// A sequence of steps over an input of type `R`, for any number of runs.
///
/// `Debug` shows the names of the steps.
pub struct Saga<R> {
    steps: Vec<Step<R>>,
}

impl<R> Default for Saga<R> {
    fn default() -> Self {
        Self { steps: Vec::new() }
    }
}

impl<R> Saga<R> {
    /// Creates a saga without steps.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<R: Send + Sync + 'static> Saga<R> {
    /// Adds a step, under a name that no other step has. Its value is kept as JSON. A step whose
    /// value JSON does not carry (see [`Response::json`](crate::Response::json)) has happened and
    /// is undone with the others.
    #[must_use]
    pub fn step<T, F, Fut>(mut self, name: impl Into<String>, action: F) -> Self
    where
        T: Serialize,
        F: Fn(SagaStep<R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, StepError>> + Send + 'static,
    {
        self.steps.push(Step {
            name: name.into(),
            action: boxed(action),
            compensation: None,
        });
        self
    }

    /// Adds a compensation to the step that was added last. Its value is kept as JSON; an error of
    /// either kind counts as a failure of this try. Before the first step it has no effect.
    #[must_use]
    pub fn undone_by<T, F, Fut>(mut self, compensation: F) -> Self
    where
        T: Serialize,
        F: Fn(SagaStep<R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, StepError>> + Send + 'static,
    {
        if let Some(step) = self.steps.last_mut() {
            step.compensation = Some(boxed(compensation));
        }
        self
    }

    fn check(&self) -> Result<()> {
        if self.steps.is_empty() {
            return Err(Error::invalid_input("a saga needs at least one step"));
        }
        let mut names = BTreeSet::new();
        match self.steps.iter().find(|step| !names.insert(&step.name)) {
            None => Ok(()),
            Some(step) => Err(Error::invalid_input(format!(
                "two steps of a saga have the name `{}`; a name is a step's identity",
                step.name
            ))),
        }
    }
}

impl<R> fmt::Debug for Saga<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.steps.iter().map(|step| &step.name);
        f.debug_list().entries(names).finish()
    }
}
