//! [`Effects`]: a store, and beside it a ledger that shows when an effect happened twice.
//!
//! The stores are those of [`storm`](crate::storm). As there, an effect and its result commit
//! together: one transaction holds both, or, on Redis, the ledger accepts an idempotency key of its
//! own.

use std::sync::Arc;

use idem_core::{BoxError, IdempotencyStore, Key, Record, Response, Work};
use tempfile::TempDir;

use crate::storm::backend::{Backend, Location, Settlement, open};
use crate::storm::desk::Probe;
use crate::storm::entry::Entry;
use crate::storm::url;

const CONNECTIONS: u32 = 8;

/// A store and a ledger of effects. The ledger has no unique constraint: an effect that happens
/// twice has two rows.
#[derive(Debug)]
pub struct Effects {
    backend: Box<dyn Backend>,
    location: Location,
    /// A folder to remove at the end.
    _folder: Option<TempDir>,
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The id of the event, message or job.
    pub id: String,
    /// The note of the work.
    pub note: String,
    /// How often its claim had been acquired by then.
    pub attempts: i64,
}

impl Effects {
    /// Creates tables or keys whose names begin with `name`, in this store, or in a SQLite file in
    /// a temporary folder.
    ///
    /// # Errors
    ///
    /// An error when the store cannot be used.
    pub async fn create(store: Option<&str>, name: &str) -> Result<Self, BoxError> {
        let folder = match store {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("idem-").tempdir()?),
        };
        let file = folder.as_ref().map(|folder| folder.path().join("store.db"));
        let url = match (store, file) {
            (Some(url), _) => url.to_owned(),
            (None, file) => format!("sqlite:{}", file.unwrap_or_default().display()),
        };
        let namespace = format!("idem_{name}_{:08x}", rand::random::<u32>());
        let mut effects = Self::join(&url, &namespace).await?;
        effects._folder = folder;
        effects.backend.create().await?;
        Ok(effects)
    }

    /// Opens tables or keys that begin with `namespace` in this store, and creates missing ones;
    /// they stay.
    ///
    /// # Errors
    ///
    /// An error when the store cannot be used.
    pub async fn open(url: &str, namespace: &str) -> Result<Self, BoxError> {
        let effects = Self::join(url, namespace).await?;
        effects.backend.create().await?;
        Ok(effects)
    }

    /// Opens the tables or keys of another process, by its [`url`](Self::url) and
    /// [`namespace`](Self::namespace).
    ///
    /// # Errors
    ///
    /// An error when the store cannot be used.
    pub async fn join(url: &str, namespace: &str) -> Result<Self, BoxError> {
        let location = Location {
            url: url.to_owned(),
            namespace: namespace.to_owned(),
            connections: CONNECTIONS,
            worker: String::new(),
        };
        let backend = open(&location).await.map_err(|stop| stop.to_string())?;
        Ok(Self {
            backend,
            location,
            _folder: None,
        })
    }

    /// Returns the URL of the store.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.location.url
    }

    /// Returns the prefix of its tables or keys.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.location.namespace
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn IdempotencyStore> {
        self.backend.store()
    }

    /// Returns the product, and where it runs.
    ///
    /// # Errors
    ///
    /// An error when the store does not report its product.
    pub async fn product(&self) -> Result<String, BoxError> {
        let shown = match (&self._folder, url::scheme(&self.location.url)) {
            (Some(_), _) => "temporary file".to_owned(),
            (None, "sqlite") => self.location.url.clone(),
            (None, _) => url::without_credentials(&self.location.url),
        };
        Ok(format!("{} ({shown})", self.backend.product().await?))
    }

    /// Makes the effect happen and completes the work's claim with the response: both or neither.
    ///
    /// # Errors
    ///
    /// An error when the effect is not known to have happened; the claim may be lost.
    pub async fn commit(
        &self,
        work: &Work,
        id: &str,
        note: &str,
        response: Response,
    ) -> Result<(), BoxError> {
        let claim = work.claim().ok_or("the work has no claim")?;
        let settlement = Settlement {
            entry: Entry {
                key: id.to_owned(),
                fingerprint: String::new(),
                token: claim.token().as_i64(),
                attempts: i64::from(claim.attempts()),
                delivery: 0,
                worker: note.to_owned(),
            },
            claim,
            response,
            probe: Probe::default(),
        };
        self.backend.settle(&settlement).await?;
        Ok(())
    }

    /// Only makes the effect happen: shows what goes wrong without a claim.
    ///
    /// # Errors
    ///
    /// An error when the store is unreachable.
    pub async fn append(&self, id: &str, note: &str) -> Result<(), BoxError> {
        let entry = Entry {
            key: id.to_owned(),
            fingerprint: String::new(),
            token: 0,
            attempts: 0,
            delivery: 0,
            worker: note.to_owned(),
        };
        self.backend.append(&entry).await
    }

    /// Returns whether all of these have ended: completed, or failed for good.
    ///
    /// # Errors
    ///
    /// An error when the store does not answer.
    pub async fn are_over(&self, keys: &[Key]) -> Result<bool, BoxError> {
        let store = self.store();
        for key in keys {
            let record = store.get(key).await?;
            if !matches!(record, Some(Record::Completed(_) | Record::Failed(_))) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns all effects, in the order in which they were written.
    ///
    /// # Errors
    ///
    /// An error when the store is unreachable.
    pub async fn all(&self) -> Result<Vec<Effect>, BoxError> {
        let effect = |entry: Entry| Effect {
            id: entry.key,
            note: entry.worker,
            attempts: entry.attempts,
        };
        Ok(self
            .backend
            .ledger()
            .await?
            .into_iter()
            .map(effect)
            .collect())
    }

    /// Removes what [`create`](Self::create) made.
    ///
    /// # Errors
    ///
    /// An error when the store is unreachable.
    pub async fn remove(self) -> Result<(), BoxError> {
        self.backend.remove().await
    }
}
