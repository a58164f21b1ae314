use std::sync::Arc;

use idem_core::{BoxError, IdempotencyStore};

use crate::Backend;

/// A namespace of a backend, opened.
#[derive(Debug)]
pub struct Arena {
    backend: Backend,
    namespace: String,
    store: Arc<dyn IdempotencyStore>,
}

impl Arena {
    /// Creates and opens a fresh namespace.
    ///
    /// # Errors
    ///
    /// The backend's error.
    pub async fn new(backend: &Backend) -> Result<Self, BoxError> {
        let namespace = backend.create().await?;
        match backend.harness.open(&namespace).await {
            Ok(store) => Ok(Self {
                backend: backend.clone(),
                namespace,
                store,
            }),
            Err(error) => {
                let _ = backend.harness.destroy(&namespace).await;
                Err(error)
            }
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::clone(&self.store)
    }

    /// Opens another store, with connections of its own.
    pub(crate) async fn another(&self) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        self.backend.harness.open(&self.namespace).await
    }

    /// Removes the namespace.
    ///
    /// # Errors
    ///
    /// The backend's error.
    pub async fn close(self) -> Result<(), BoxError> {
        drop(self.store);
        self.backend.harness.destroy(&self.namespace).await
    }
}
