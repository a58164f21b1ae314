//! [`Guard`]: every call of a cache goes through its breaker and within a time budget.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Key, Result};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::breaker::{Breaker, Permit};
use crate::{Cache, Config, Lookup};

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The breaker is open, or there is no runtime to measure time: the call was not made.
    Skipped,
    /// It failed, or was given up when its budget was spent.
    Failed(Error),
}

#[derive(Debug)]
pub(crate) struct Guard {
    breaker: Mutex<Breaker>,
    probe_budget: Duration,
}

impl Guard {
    pub(crate) fn new(config: &Config) -> Arc<Self> {
        Arc::new(Self {
            breaker: Mutex::new(Breaker::new(config)),
            probe_budget: config.background_budget,
        })
    }

    /// Returns the answer of the call, if the breaker is closed and it comes in time.
    ///
    /// Dropped before that, it reports nothing to the breaker.
    pub(crate) async fn call<T>(
        self: &Arc<Self>,
        budget: Duration,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T, NoAnswer> {
        let permit = self.breaker().is_closed().then_some(Permit::Call);
        let underway = self.underway(permit).ok_or(NoAnswer::Skipped)?;
        underway.run(budget, call).await
    }

    /// Returns the cache's answer, if the breaker is closed and it comes in time. A due probe runs
    /// beside the caller, which does without the cache.
    pub(crate) async fn read<C: Cache>(
        self: &Arc<Self>,
        cache: &Arc<C>,
        key: &Key,
        budget: Duration,
    ) -> Result<Lookup<C::Ticket>, NoAnswer> {
        let runtime = Handle::try_current().map_err(|_| NoAnswer::Skipped)?;
        let permit = self.breaker().permit(Instant::now());
        let underway = self.underway(permit).ok_or(NoAnswer::Skipped)?;
        if permit == Some(Permit::Probe) {
            runtime.spawn(underway.probe(Arc::clone(cache), key.clone(), budget));
            return Err(NoAnswer::Skipped);
        }
        underway.run(budget, cache.read(key)).await
    }

    fn underway(self: &Arc<Self>, permit: Option<Permit>) -> Option<Underway> {
        // Without a runtime there is no clock for the budget.
        Handle::try_current().ok()?;
        Some(Underway {
            permit: Some(permit?),
            guard: Arc::clone(self),
        })
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the call's answer, or an error when it took too long.
pub(crate) async fn in_time<T>(
    budget: Duration,
    call: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    let answer = tokio::time::timeout(budget, call).await;
    answer.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            Effect::Unknown,
            format!("the cache did not answer within {} ms", budget.as_millis()),
        ))
    })
}

/// A call that has begun; dropped before its end, it gives back the right to probe.
struct Underway {
    guard: Arc<Guard>,
    permit: Option<Permit>,
}

impl Underway {
    async fn run<T>(
        self,
        budget: Duration,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T, NoAnswer> {
        let answer = in_time(budget, call).await;
        self.ended(answer.is_ok());
        answer.map_err(NoAnswer::Failed)
    }

    /// Reads twice. The first read may take long, because a cache may have to connect, which no
    /// caller's budget may suffice for; the second has to finish within the budget of callers.
    async fn probe<C: Cache>(self, cache: Arc<C>, key: Key, budget: Duration) {
        let first = in_time(self.guard.probe_budget, cache.read(&key)).await;
        let well = match first {
            Ok(_) => in_time(budget, cache.read(&key)).await.is_ok(),
            Err(_) => false,
        };
        self.ended(well);
    }

    fn ended(mut self, well: bool) {
        let Some(permit) = self.permit.take() else {
            return;
        };
        let mut breaker = self.guard.breaker();
        if well {
            breaker.succeeded(permit);
        } else {
            breaker.failed(permit, Instant::now());
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.guard.breaker().abandoned(permit, Instant::now());
        }
    }
}
