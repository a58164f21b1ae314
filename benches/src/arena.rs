//! [`Arena`]: a namespace of a backend, opened.

use std::sync::Arc;

use idem_conformance::{CallerTransaction, Promise};
use idem_core::{BoxError, ClaimOutcome, ClaimRequest, IdempotencyStore};

use crate::{Backend, Baseline, Load};

/// A namespace with a store, and with the table of the bare statements.
#[derive(Clone)]
pub(crate) struct Arena {
    backend: Backend,
    namespace: Arc<str>,
    store: Arc<dyn IdempotencyStore>,
}

impl Arena {
    /// Creates and opens a fresh namespace.
    pub(crate) async fn new(backend: &Backend) -> Result<Self, BoxError> {
        let namespace = backend.harness.create().await?;
        let open = async {
            if let Some(baseline) = &backend.baseline {
                baseline.create(&namespace).await?;
            }
            backend.harness.open(&namespace).await
        };
        match open.await {
            Ok(store) => Ok(Self {
                backend: backend.clone(),
                namespace: namespace.into(),
                store,
            }),
            Err(error) => {
                let _ = backend.harness.destroy(&namespace).await;
                Err(error)
            }
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the bare statements, if there are any.
    pub(crate) fn baseline(&self) -> Option<&Arc<dyn Baseline>> {
        self.backend.baseline.as_ref()
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::clone(&self.store)
    }

    /// Opens another store, with connections of its own.
    pub(crate) async fn another(&self) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        self.backend.harness.open(&self.namespace).await
    }

    /// Opens another store for batches.
    #[cfg(feature = "hybrid")]
    pub(crate) async fn batch_store(&self) -> Result<Arc<dyn idem_core::BatchStore>, BoxError> {
        let store = self.backend.harness.open_batch(&self.namespace).await?;
        store.ok_or_else(|| "the backend has no batches".into())
    }

    /// Lets the server fill the store's table, as [`Baseline::fill`].
    pub(crate) async fn fill(&self, rows: u64, ends_in: i64) -> Result<(), BoxError> {
        let baseline = self.baseline().ok_or("the table cannot be filled")?;
        baseline.fill(&self.namespace, rows, ends_in).await
    }

    /// Begins to load rows in the server's own way; `None` if it has none.
    pub(crate) async fn load(&self) -> Result<Option<Box<dyn Load>>, BoxError> {
        match self.baseline() {
            Some(baseline) => baseline.load(&self.namespace).await,
            None => Ok(None),
        }
    }

    /// Claims the key in a caller's transaction, which stays open; `None` if nothing locks a key
    /// alone.
    pub(crate) async fn lock(
        &self,
        request: &ClaimRequest,
    ) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let harness = &self.backend.harness;
        if !harness.profile().promises(Promise::RowLocks) {
            return Ok(None);
        }
        let begun = harness.begin(&self.namespace).await?;
        let mut transaction = begun.ok_or("there are no transactions")?;
        match transaction.claim(request).await? {
            ClaimOutcome::Acquired(_) => Ok(Some(transaction)),
            other => Err(format!("the claim to hold was answered {}", other.name()).into()),
        }
    }

    /// Removes the namespace.
    pub(crate) async fn close(self) -> Result<(), BoxError> {
        drop(self.store);
        self.backend.harness.destroy(&self.namespace).await
    }
}
