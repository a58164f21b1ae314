use std::sync::Arc;

use idem_core::{BatchStore, BoxError, IdempotencyStore};

use crate::{Backend, Handle};

/// A namespace of a backend, opened.
pub struct Arena {
    backend: Arc<dyn Backend>,
    namespace: String,
    handle: Handle,
}

impl Arena {
    /// Creates and opens a fresh namespace.
    ///
    /// # Errors
    ///
    /// The backend's error.
    pub async fn new(backend: &Arc<dyn Backend>) -> Result<Self, BoxError> {
        let namespace = backend.create().await?;
        match backend.open(&namespace).await {
            Ok(handle) => Ok(Self {
                backend: Arc::clone(backend),
                namespace,
                handle,
            }),
            Err(error) => {
                let _ = backend.destroy(&namespace).await;
                Err(error)
            }
        }
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn IdempotencyStore> {
        self.handle.store()
    }

    /// Returns a separate handle for batches, if the backend has them.
    pub(crate) async fn batch(&self) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(match self.backend.open(&self.namespace).await? {
            Handle::Batch(store) => Some(store),
            Handle::Plain(_) => None,
        })
    }

    /// Removes the namespace.
    ///
    /// # Errors
    ///
    /// The backend's error.
    pub async fn close(self) -> Result<(), BoxError> {
        drop(self.handle);
        self.backend.destroy(&self.namespace).await
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena")
            .field("backend", &self.backend.name())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
