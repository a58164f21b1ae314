//! [`Engine`]: `run_in` and `Work::commit`, on the transactions of any driver.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::engine::{Transactional, Tx};
use idem_core::{BoxError, Idempotency, IdempotencyStore, Key, Outcome, Policy, RunError};

use super::begun::Doing;
use super::{InTransaction, Open};

/// What a run in a transaction returns.
pub type Ran = Result<Outcome<String>, RunError<BoxError, String>>;

/// The work in a transaction, which may run more than once.
pub type Body = Arc<
    dyn for<'t> Fn(&'t mut (dyn InTransaction + 't)) -> Doing<'t, Result<String, BoxError>>
        + Send
        + Sync,
>;

/// Shares a closure as a body.
pub(super) fn body(
    work: impl for<'t> Fn(&'t mut (dyn InTransaction + 't)) -> Doing<'t, Result<String, BoxError>>
    + Send
    + Sync
    + 'static,
) -> Body {
    Arc::new(work)
}

/// An engine with the transactions of a driver.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Calls `run_in`.
    async fn run_in(&self, key: &Key, request: &str, body: &Body) -> Ran;

    /// Runs work that calls [`Work::commit`](idem_core::Work::commit) this often with the body, and
    /// then returns what `returned` makes of the last value.
    async fn commit(
        &self,
        key: &Key,
        times: usize,
        body: &Body,
        returned: fn(String) -> String,
    ) -> Ran;
}

/// The engine of a caller.
#[derive(Debug)]
#[allow(dead_code, reason = "for the drivers that are on")]
pub(crate) struct EngineIn<S, X> {
    engine: Idempotency,
    store: S,
    transactions: X,
    payments: String,
}

impl<S: IdempotencyStore + Clone, X> EngineIn<S, X> {
    /// Creates an engine on a clone of the store, or on the other one if there is one.
    #[allow(dead_code, reason = "for the drivers that are on")]
    pub(crate) fn new(
        store: &S,
        other: Option<Arc<dyn IdempotencyStore>>,
        policy: Policy,
        transactions: X,
        payments: &str,
    ) -> Self {
        let engine = match other {
            Some(other) => Idempotency::new(other),
            None => Idempotency::new(store.clone()),
        };
        Self {
            engine: engine.with_policy(policy),
            store: store.clone(),
            transactions,
            payments: payments.to_owned(),
        }
    }
}

impl<S, X> EngineIn<S, X>
where
    S: Clone + Send + Sync + 'static,
    X: Transactional,
    for<'t> Open<'t, S, X::Transaction>: InTransaction,
{
    /// Makes one call of the body: a boxed future that owns all that it needs.
    fn call(
        &self,
        body: &Body,
        mut tx: Tx<X::Transaction>,
    ) -> Doing<'static, Result<String, BoxError>> {
        let (store, payments) = (self.store.clone(), self.payments.clone());
        let body = Arc::clone(body);
        Box::pin(async move {
            let mut open = Open {
                store: &store,
                transaction: &mut *tx,
                payments: &payments,
            };
            body(&mut open).await
        })
    }
}

#[async_trait]
impl<S, X> Engine for EngineIn<S, X>
where
    S: Clone + Debug + Send + Sync + 'static,
    X: Transactional,
    for<'t> Open<'t, S, X::Transaction>: InTransaction,
{
    async fn run_in(&self, key: &Key, request: &str, body: &Body) -> Ran {
        let work = |tx, _| self.call(body, tx);
        let run = self.engine.run_in(&self.transactions, key, request, work);
        run.await
    }

    async fn commit(
        &self,
        key: &Key,
        times: usize,
        body: &Body,
        returned: fn(String) -> String,
    ) -> Ran {
        let run = self.engine.run(key, "request", |work| {
            let work: Doing<'_, Result<String, BoxError>> = Box::pin(async move {
                let mut value = String::new();
                for _ in 0..times {
                    let body = |tx| self.call(body, tx);
                    value = work.commit(&self.transactions, body).await?;
                }
                Ok(returned(value))
            });
            work
        });
        run.await
    }
}
