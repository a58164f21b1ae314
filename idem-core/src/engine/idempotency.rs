//! [`Idempotency`]: a store with policies.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::codec::{Codec, Json, Raw};
use super::context::Context;
use super::heartbeat::Heartbeats;
use super::observe::{Observer, Observers};
use super::policies::LivePolicies;
use super::waiting::Waiting;
use super::{Outcome, Policy, RunError, Work, run};
use crate::backend::ChangeNotifier;
use crate::{Fingerprint, IdempotencyStore, Key, Response, Result};

/// Runs work once per key, on any store. Cloning costs a reference count.
///
/// The work is a closure that takes [`Work`] and returns a future: `async |work: Work| { … }`. Its
/// value is stored as JSON, so it is `Serialize + DeserializeOwned`; `()` is a value like others.
/// Its error only needs to be `Display`.
///
/// # Cancellation
///
/// Every run may be dropped at any poll. The [module](crate::engine) says what then becomes of the
/// key.
#[derive(Debug, Clone)]
pub struct Idempotency {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug, Clone)]
pub(super) struct Shared {
    store: Arc<dyn IdempotencyStore>,
    wakes: Option<Arc<dyn ChangeNotifier>>,
    waiting: Arc<Waiting>,
    heartbeats: Arc<Heartbeats>,
    pub(super) policies: LivePolicies,
    pub(super) observers: Arc<[Arc<dyn Observer>]>,
}

impl Idempotency {
    /// 1,024.
    pub const DEFAULT_MAX_WAITERS: usize = 1024;

    /// Runs on this store, with [`Policy::default`](crate::Policy::default) for every operation. An
    /// `Arc<dyn IdempotencyStore>` is a store, too.
    #[must_use]
    pub fn new(store: impl IdempotencyStore) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: Arc::new(store),
                wakes: None,
                waiting: Arc::new(Waiting::new(Self::DEFAULT_MAX_WAITERS)),
                heartbeats: Arc::default(),
                policies: LivePolicies::default(),
                observers: Arc::default(),
            }),
        }
    }

    /// What wakes runs that wait for another's result
    /// ([`BusyPolicy::Wait`](crate::BusyPolicy::Wait)): they poll as they do without it, and ask at
    /// once when they are told to. A store may be its own: see its crate. Of claims that end in
    /// this process they are told in any case.
    #[must_use]
    pub fn with_notifier(mut self, wakes: impl ChangeNotifier) -> Self {
        Arc::make_mut(&mut self.shared).wakes = Some(Arc::new(wakes));
        self
    }

    /// How many runs may wait for another's result at once; 1,024 unless told. One more is refused
    /// as under [`BusyPolicy::Refuse`](crate::BusyPolicy::Refuse). Clones made before keep their
    /// own number.
    #[must_use]
    pub fn with_max_waiters(mut self, most: usize) -> Self {
        Arc::make_mut(&mut self.shared).waiting = Arc::new(Waiting::new(most));
        self
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &dyn IdempotencyStore {
        &*self.shared.store
    }

    /// Runs the work unless it has run for this key before; then its result is replayed.
    ///
    /// Two requests are the same when their JSON is: see [`Fingerprint::of`].
    ///
    /// # Errors
    ///
    /// See [`RunError`]; [`has_run`](RunError::has_run) tells whether the work ran.
    ///
    /// # Panics
    ///
    /// With what the work panics with, after the policy was followed.
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

    /// [`run`](Self::run) for a request whose fingerprint is already known, or made in another way.
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

    /// [`run`](Self::run) where there is a key. Without one the work just runs: the value is fresh,
    /// the store is not asked, nothing is kept.
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

    /// [`run`](Self::run) for work that makes a whole [`Response`], which is stored and replayed
    /// byte for byte: for HTTP and other edges.
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

    /// A run that follows this policy instead of the operation's.
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
        let observers = context.observers.clone();
        let run = run::run::<C, _, _, _, _>(context, key, fingerprint, work);
        observers.around(run).await
    }

    /// What the parts of a run share.
    pub(super) fn context(&self, key: &Key, policy: Arc<Policy>) -> Result<Context> {
        let store = Arc::clone(&self.shared.store);
        let wakes = self.shared.wakes.clone();
        let waiting = Arc::clone(&self.shared.waiting);
        let observers = Observers::new(Arc::clone(&self.shared.observers), key);
        let heartbeats = Arc::clone(&self.shared.heartbeats);
        Context::new(store, wakes, waiting, heartbeats, policy, observers)
    }
}
