//! [`Observers`]: all observers of one run.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::span::RunSpan;
use super::{Decision, Ended, Ending, LeaseLoss, Observer, Retry};
use crate::{Error, ErrorKind, Key};

/// All observers of one run, and its span.
#[derive(Clone)]
pub(in crate::engine) struct Observers {
    /// `None` where there are none: the reference count is one that all runs share.
    all: Option<Arc<[Arc<dyn Observer>]>>,
    span: RunSpan,
}

impl Observers {
    pub(in crate::engine) fn new(all: &Arc<[Arc<dyn Observer>]>, key: &Key) -> Self {
        Self {
            span: RunSpan::of(all, key),
            all: (!all.is_empty()).then(|| Arc::clone(all)),
        }
    }

    /// Returns whether there is no observer.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.all.is_none()
    }

    /// Returns the future within the run's span.
    pub(in crate::engine) fn around<F: Future>(
        &self,
        future: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        self.span.around(future)
    }

    fn notify(&self, notify: impl Fn(&dyn Observer)) {
        if let Some(all) = &self.all {
            let notify_all = || all.iter().for_each(|observer| notify(&**observer));
            self.span.enter(notify_all);
        }
    }

    pub(in crate::engine) fn decided(&self, key: &Key, decision: Decision) {
        self.span.record("decision", decision.name());
        self.notify(|observer| observer.decided(key, decision));
    }

    pub(in crate::engine) fn sealed(&self, key: &Key, since_first_seen: Option<Duration>) {
        self.ended(
            key,
            &Ended {
                ending: Ending::Sealed,
                since_first_seen,
                error: None,
            },
        );
    }

    /// Reports an end without a seal.
    pub(in crate::engine) fn ended_without(
        &self,
        key: &Key,
        ending: Ending,
        error: Option<ErrorKind>,
    ) {
        self.ended(
            key,
            &Ended {
                ending,
                since_first_seen: None,
                error,
            },
        );
    }

    fn ended(&self, key: &Key, ended: &Ended) {
        self.span.record("ending", ended.ending.name());
        self.notify(|observer| observer.ended(key, ended));
    }

    pub(in crate::engine) fn lease_lost(&self, key: &Key, loss: LeaseLoss) {
        self.notify(|observer| observer.lease_lost(key, loss));
    }

    pub(in crate::engine) fn retried(&self, key: &Key, call: &'static str, error: &Error) {
        let kind = error.kind();
        self.notify(|observer| observer.retried(key, Retry { call, kind }));
    }

    /// Reports that the run waits, until the returned value is dropped.
    pub(in crate::engine) fn waits(&self, key: &Key) -> Waits {
        self.notify(|observer| observer.wait_began(key));
        Waits {
            observers: self.clone(),
            key: key.clone(),
            since: Instant::now(),
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.all.iter().flat_map(|all| all.iter()))
            .finish()
    }
}

/// A run that waits.
#[derive(Debug)]
pub(in crate::engine) struct Waits {
    observers: Observers,
    key: Key,
    since: Instant,
}

impl Drop for Waits {
    fn drop(&mut self) {
        let waited = self.since.elapsed();
        self.observers
            .notify(|observer| observer.wait_ended(&self.key, waited));
    }
}
