//! [`Idempotency`]: a store with policies.

use std::any::Any;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::codec::{Codec, Json, Raw};
use super::context::{Context, Shared};
use super::policies::LivePolicies;
use super::waiting::Waiting;
use super::{Outcome, Policy, RunError, Work, run};
use crate::backend::ChangeNotifier;
use crate::{Fingerprint, IdempotencyStore, Key, Response, Result};

/// Runs work once per key, on any store. Cloning costs a reference count.
///
/// The work is a closure that takes [`Work`] and returns a future: `async |work: Work| { … }`. Its
/// value is stored as JSON, so it is `Serialize + DeserializeOwned`; `()` is a value like any
/// other. Its error only needs to be `Display`.
///
/// # Cancellation
///
/// Every run may be dropped at any poll. The [module](crate::engine) says what then becomes of the
/// key.
#[doc(alias("dedup", "deduplication", "exactly once", "inbox"))]
#[derive(Debug, Clone)]
pub struct Idempotency {
    pub(super) shared: Arc<Shared>,
}

impl Idempotency {
    /// 1,024 runs.
    pub const DEFAULT_MAX_WAITERS: usize = 1024;

    /// Creates an engine on this store, with [`Policy::default`](crate::Policy::default) for every
    /// operation. An `Arc<dyn IdempotencyStore>` is a store, too.
    #[must_use]
    pub fn new(store: impl IdempotencyStore) -> Self {
        // One that is shared already is not wrapped again, which would cost each call a future.
        let shared = (&store as &dyn Any)
            .downcast_ref::<Arc<dyn IdempotencyStore>>()
            .cloned();
        let store = shared.unwrap_or_else(|| Arc::new(store));
        Self {
            shared: Arc::new(Shared {
                store,
                notifier: None,
                waiting: Arc::new(Waiting::new(Self::DEFAULT_MAX_WAITERS)),
                policies: LivePolicies::default(),
                observers: Arc::default(),
            }),
        }
    }

    /// Sets what wakes the runs that wait for another run's result
    /// ([`BusyPolicy::Wait`](crate::BusyPolicy::Wait)). They poll as they do without it, and claim
    /// again at once when they are notified. A store may be its own notifier: see its crate. Claims
    /// that end in this process notify in any case.
    #[must_use]
    pub fn with_notifier(mut self, notifier: impl ChangeNotifier) -> Self {
        Arc::make_mut(&mut self.shared).notifier = Some(Arc::new(notifier));
        self
    }

    /// Sets how many runs may wait for another run's result at once. Default: 1,024. One more is
    /// refused as under [`BusyPolicy::Refuse`](crate::BusyPolicy::Refuse). Clones made before keep
    /// their own number.
    #[must_use]
    pub fn with_max_waiters(mut self, most: usize) -> Self {
        Arc::make_mut(&mut self.shared).waiting = Arc::new(Waiting::new(most));
        self
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &dyn IdempotencyStore {
        &*self.shared.store
    }

    /// Reports to the observers that an answer is not stored, with the reason as one word. Edges
    /// call it for answers that they release or replace by a marker.
    pub fn note_unstored(&self, key: &Key, reason: &'static str) {
        for observer in &*self.shared.observers {
            observer.unstored(key, reason);
        }
    }

    /// Runs the work unless it has run for this key before; then its result is replayed.
    ///
    /// Two requests are the same when their JSON is: see [`Fingerprint::of`].
    ///
    /// # Errors
    ///
    /// See [`RunError`]; [`has_run`](RunError::has_run) returns whether the work ran.
    ///
    /// # Panics
    ///
    /// With the panic of the work, after the policy was followed.
    pub async fn run<R, T, E, F, Fut>(
        &self,
        key: &Key,
        request: &R,
        work: F,
    ) -> Result<Outcome<T>, RunError<E, T>>
    where
        R: Serialize + Sync + ?Sized,
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let policy = self.policy_for(key);
        let fingerprint = Fingerprint::of_checked(request, |bytes| policy.check_request(bytes));
        let fingerprint = fingerprint.map_err(RunError::Store)?;
        self.run_following::<Json, _, _, _, _>(policy, key, fingerprint, work)
            .await
    }

    /// Runs the work as [`run`](Self::run) does, for a request whose fingerprint is already known,
    /// or made in another way.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// As for [`run`](Self::run).
    pub async fn run_with<T, E, F, Fut>(
        &self,
        key: &Key,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<T>, RunError<E, T>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        self.run_coded::<Json, _, _, _, _>(key, fingerprint, work)
            .await
    }

    /// Runs the work as [`run`](Self::run) does, where there is a key. Without one the work just
    /// runs: the value is fresh, and nothing is read or stored.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run); without a key only [`RunError::Work`].
    ///
    /// # Panics
    ///
    /// As for [`run`](Self::run).
    pub async fn run_optional<R, T, E, F, Fut>(
        &self,
        key: Option<&Key>,
        request: &R,
        work: F,
    ) -> Result<Outcome<T>, RunError<E, T>>
    where
        R: Serialize + Sync + ?Sized,
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        match key {
            Some(key) => self.run(key, request, work).await,
            None => {
                let unkeyed = Work::unkeyed().map_err(RunError::Store)?;
                let value = work(unkeyed).await.map_err(RunError::Work)?;
                Ok(Outcome::Fresh(value))
            }
        }
    }

    /// Runs work that makes a whole [`Response`], which is stored and replayed byte for byte:
    /// [`run`](Self::run) for HTTP and other edges.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run), but never [`RunError::Codec`].
    ///
    /// # Panics
    ///
    /// As for [`run`](Self::run).
    pub async fn run_response<E, F, Fut>(
        &self,
        key: &Key,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<Response>, RunError<E, Response>>
    where
        E: Display + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<Response, E>> + Send,
    {
        self.run_coded::<Raw, _, _, _, _>(key, fingerprint, work)
            .await
    }

    /// Runs work as [`run_response`](Self::run_response) does, under this policy instead of the
    /// operation's.
    ///
    /// # Errors
    ///
    /// As for [`run_response`](Self::run_response).
    ///
    /// # Panics
    ///
    /// As for [`run`](Self::run).
    pub async fn run_response_under<E, F, Fut>(
        &self,
        policy: Arc<Policy>,
        key: &Key,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<Response>, RunError<E, Response>>
    where
        E: Display + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<Response, E>> + Send,
    {
        self.run_following::<Raw, _, _, _, _>(policy, key, fingerprint, work)
            .await
    }

    async fn run_coded<C, T, E, F, Fut>(
        &self,
        key: &Key,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<T>, RunError<E, T>>
    where
        C: Codec<T>,
        T: Send,
        E: Display + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let policy = self.policy_for(key);
        self.run_following::<C, _, _, _, _>(policy, key, fingerprint, work)
            .await
    }

    /// Runs under this policy instead of the operation's.
    pub(super) async fn run_following<C, T, E, F, Fut>(
        &self,
        policy: Arc<Policy>,
        key: &Key,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<T>, RunError<E, T>>
    where
        C: Codec<T>,
        T: Send,
        E: Display + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let context = self.context(key, policy).map_err(RunError::Store)?;
        let run = run::run::<C, _, _, _, _>(&context, key, fingerprint, work);
        context.observers.around(run).await
    }

    /// Returns what the parts of a run share.
    pub(super) fn context(&self, key: &Key, policy: Arc<Policy>) -> Result<Context> {
        Context::new(&self.shared, policy, key)
    }
}
