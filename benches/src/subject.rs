//! [`Subject`] and [`Arena`]: what is measured, and where.

use std::sync::Arc;

use idem_conformance::Harness;
use idem_core::wrappers::Batched;
use idem_core::{BatchStore, BoxError, IdempotencyStore};

use crate::{Bare, Filler, Locker};

/// A backend, as the conformance suite gets at it, and what it is compared with.
#[derive(Clone)]
pub struct Subject {
    harness: Arc<dyn Harness>,
    bare: Option<Arc<dyn Bare>>,
    filler: Option<Arc<dyn Filler>>,
    locker: Option<Arc<dyn Locker>>,
}

impl Subject {
    /// The backend of this harness, compared with nothing.
    pub fn new(harness: Arc<dyn Harness>) -> Self {
        Self {
            harness,
            bare: None,
            filler: None,
            locker: None,
        }
    }

    /// The same compared with bare statements.
    #[must_use]
    pub fn with_bare(mut self, bare: Arc<dyn Bare>) -> Self {
        self.bare = Some(bare);
        self
    }

    /// The same with a way to fill its table.
    #[must_use]
    pub fn with_filler(mut self, filler: Arc<dyn Filler>) -> Self {
        self.filler = Some(filler);
        self
    }

    /// The same with a way to keep a key locked.
    #[must_use]
    pub fn with_locker(mut self, locker: Arc<dyn Locker>) -> Self {
        self.locker = Some(locker);
        self
    }

    /// The harness's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.harness.name()
    }

    /// The harness.
    #[must_use]
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// The bare statements, if there are any.
    #[must_use]
    pub fn bare(&self) -> Option<&Arc<dyn Bare>> {
        self.bare.as_ref()
    }

    /// The way to fill the table, if there is one.
    #[must_use]
    pub fn filler(&self) -> Option<&Arc<dyn Filler>> {
        self.filler.as_ref()
    }

    /// The way to keep a key locked, if there is one.
    #[must_use]
    pub fn locker(&self) -> Option<&Arc<dyn Locker>> {
        self.locker.as_ref()
    }

    /// A fresh namespace, opened.
    ///
    /// # Errors
    ///
    /// The harness's and the bare statements'.
    pub async fn arena(&self) -> Result<Arena, BoxError> {
        let namespace = self.harness.create().await?;
        let opened = self.open(&namespace).await;
        if opened.is_err() {
            let _ = self.harness.destroy(&namespace).await;
        }
        let (store, batch) = opened?;
        Ok(Arena {
            subject: self.clone(),
            namespace,
            store,
            batch,
        })
    }

    async fn open(&self, namespace: &str) -> Result<Opened, BoxError> {
        if let Some(bare) = &self.bare {
            bare.create(namespace).await?;
        }
        let store = self.harness.open(namespace).await?;
        Ok((store, self.harness.open_batch(namespace).await?))
    }
}

type Opened = (Arc<dyn IdempotencyStore>, Option<Arc<dyn BatchStore>>);

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// A namespace of a subject, opened.
#[derive(Debug)]
pub struct Arena {
    subject: Subject,
    namespace: String,
    store: Arc<dyn IdempotencyStore>,
    batch: Option<Arc<dyn BatchStore>>,
}

impl Arena {
    /// Whose namespace it is.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Where it is.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::clone(&self.store)
    }

    /// A handle of its own for batches, where the backend has them.
    #[must_use]
    pub fn batch(&self) -> Option<Arc<dyn BatchStore>> {
        self.batch.clone()
    }

    /// The store behind a wrapper that makes batches of what callers ask at the same time, on a handle of its own; none
    /// where the backend has no batches.
    #[must_use]
    pub fn coalesced(&self) -> Option<Arc<dyn IdempotencyStore>> {
        let batch = self.batch()?;
        Some(Arc::new(Batched::new(batch)))
    }

    /// Removes the namespace.
    ///
    /// # Errors
    ///
    /// The harness's.
    pub async fn close(self) -> Result<(), BoxError> {
        drop((self.store, self.batch));
        self.subject.harness.destroy(&self.namespace).await
    }
}
