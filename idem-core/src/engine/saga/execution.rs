//! One run of a saga.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::step::{Action, Sealed, Step};
use super::{NotUndone, Saga, SagaEnd, SagaStep, SagaStop, StepError};
use crate::engine::InterruptPolicy;
use crate::engine::codec::Json;
use crate::{
    BoxError, BusyPolicy, ErrorPolicy, Fingerprint, Idempotency, Key, Outcome, Policy, RunError,
    StalePolicy, Work,
};

impl<R: Serialize + Send + Sync + 'static> Saga<R> {
    /// Runs the saga, or the rest of it. If it has ended under this key before, its end is
    /// replayed.
    ///
    /// The policy is that of the key's operation, with these exceptions. The saga's own claim can
    /// always be taken over, and is released whenever a run stops before the end. Steps and
    /// compensations are released after an error. A run waits for a step that an earlier run may
    /// still hold, a little longer than its lease.
    ///
    /// # Errors
    ///
    /// [`RunError::Work`] with a [`SagaStop`] when the saga stopped and has to be run again; others
    /// as for [`Idempotency::run`]. [`RunError::Store`] with `InvalidInput` for a saga without
    /// steps, or with two steps of one name.
    ///
    /// # Panics
    ///
    /// With the panic of a step or a compensation. The saga can be run again.
    ///
    /// # Cancellation
    ///
    /// As if the process was killed between, or in, two steps: the saga can be run again.
    pub async fn run(
        &self,
        idem: &Idempotency,
        key: &Key,
        input: R,
    ) -> Result<Outcome<SagaEnd>, RunError<SagaStop, SagaEnd>> {
        self.check().map_err(RunError::Store)?;
        let fingerprint = Fingerprint::of(&input).map_err(RunError::Store)?;
        let policy = (*idem.policy_for(key)).clone();
        let whole = whole_policy(policy.clone());
        let execution = Execution {
            saga: self,
            idem,
            key,
            fingerprint,
            policy: Arc::new(step_policy(policy)),
            input: Arc::new(input),
            results: Arc::default(),
        };
        let work = async move |work: Work| execution.go(&work).await;
        idem.run_following::<Json, _, _, _, _>(Arc::new(whole), key, fingerprint, work)
            .await
    }
}

fn whole_policy(policy: Policy) -> Policy {
    policy
        .with_on_stale(StalePolicy::TakeOver)
        .with_on_error(ErrorPolicy::Release)
        .with_on_cancel(InterruptPolicy::Release)
        .with_on_panic(InterruptPolicy::Release)
}

fn step_policy(policy: Policy) -> Policy {
    let lease = policy.lease();
    policy
        .with_on_error(ErrorPolicy::Release)
        .with_on_busy(BusyPolicy::wait(lease.saturating_add(lease / 2)))
}

struct Execution<'s, R> {
    saga: &'s Saga<R>,
    idem: &'s Idempotency,
    key: &'s Key,
    fingerprint: Fingerprint,
    policy: Arc<Policy>,
    input: Arc<R>,
    results: Arc<BTreeMap<String, Value>>,
}

/// The result of a step.
enum Passed {
    Done(Value),
    Refused(String),
    /// It may have happened.
    InDoubt(String),
}

impl<R: Send + Sync + 'static> Execution<'_, R> {
    async fn go(mut self, whole: &Work) -> Result<SagaEnd, SagaStop> {
        for (index, step) in self.saga.steps.iter().enumerate() {
            still_held(whole)?;
            let (done, reason) = match self.forward(step).await? {
                Passed::Done(value) => {
                    Arc::make_mut(&mut self.results).insert(step.name.clone(), value);
                    continue;
                }
                Passed::Refused(reason) => (index, reason),
                Passed::InDoubt(reason) => (index + 1, reason),
            };
            return self.back(whole, done, &step.name, reason).await;
        }
        Ok(SagaEnd::Completed {
            results: Arc::unwrap_or_clone(self.results),
        })
    }

    async fn forward(&self, step: &Step<R>) -> Result<Passed, SagaStop> {
        let key = self.key.derive(&format!("saga/step/{}", step.name));
        let stopped = |reason: BoxError| SagaStop::Step {
            step: step.name.clone(),
            reason,
        };
        match self.once(&key, &step.action, refused).await {
            Ok(Sealed::Done(value)) => Ok(Passed::Done(value)),
            Ok(Sealed::Refused(reason)) => Ok(Passed::Refused(reason)),
            Ok(Sealed::Unkept(reason)) => Ok(Passed::InDoubt(reason)),
            Err(RunError::Failed(failed)) => {
                let failure = failed.failure;
                let reason = format!("{}: {}", failure.code(), failure.message());
                Ok(Passed::InDoubt(reason))
            }
            Err(RunError::Work(error)) => Err(stopped(error.into_reason())),
            Err(error) => Err(stopped(error.into())),
        }
    }

    /// Undoes the first `done` steps, the last one first.
    async fn back(
        &self,
        whole: &Work,
        done: usize,
        failed_step: &str,
        reason: String,
    ) -> Result<SagaEnd, SagaStop> {
        let failed_step = failed_step.to_owned();
        let (mut undone, mut failures) = (Vec::new(), Vec::new());
        for step in self.saga.steps.iter().take(done).rev() {
            let Some(compensation) = &step.compensation else {
                continue;
            };
            still_held(whole)?;
            match self.undo(&step.name, compensation).await {
                Ok(()) => undone.push(step.name.clone()),
                Err(reason) => failures.push(NotUndone {
                    step: step.name.clone(),
                    reason,
                }),
            }
        }
        if failures.is_empty() {
            return Ok(SagaEnd::Compensated {
                failed_step,
                reason,
                undone,
            });
        }
        Err(SagaStop::Compensation {
            failed_step,
            reason,
            undone,
            failures,
        })
    }

    async fn undo(&self, name: &str, compensation: &Action<R>) -> Result<(), BoxError> {
        let key = self.key.derive(&format!("saga/undo/{name}"));
        match self.once(&key, compensation, Err).await {
            Ok(_) => Ok(()),
            Err(RunError::Work(error)) => Err(error.into_reason()),
            Err(error) => Err(error.into()),
        }
    }

    async fn once(
        &self,
        key: &Key,
        action: &Action<R>,
        on_error: fn(StepError) -> Result<Sealed, StepError>,
    ) -> Result<Sealed, RunError<StepError, Sealed>> {
        let work = async |work: Work| {
            let step = SagaStep {
                input: Arc::clone(&self.input),
                results: Arc::clone(&self.results),
                work,
            };
            action(step).await.or_else(on_error)
        };
        let policy = Arc::clone(&self.policy);
        let run = self
            .idem
            .run_following::<Json, _, _, _, _>(policy, key, self.fingerprint, work);
        run.await.map(Outcome::into_inner)
    }
}

/// A step that failed for good is sealed as such: this decides that the others are undone.
fn refused(error: StepError) -> Result<Sealed, StepError> {
    match error {
        StepError::Permanent(reason) => Ok(Sealed::Refused(reason.to_string())),
        StepError::Temporary(_) => Err(error),
    }
}

fn still_held(whole: &Work) -> Result<(), SagaStop> {
    if whole.is_lost() {
        return Err(SagaStop::Lost);
    }
    Ok(())
}
