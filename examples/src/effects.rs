//! [`Effects`]: a store, and beside it a ledger that would show whether an effect happened twice.
//!
//! The stores are those of [`storm`](crate::storm), and so is how an effect and its seal are one: a
//! transaction holds both, or, on Redis, the ledger honours a key of its own.

use std::sync::Arc;

use idem_core::{BoxError, IdempotencyStore, Key, Record, Response, Work};
use tempfile::TempDir;

use crate::storm::backend::{Backend, Place, Settlement, open};
use crate::storm::desk::Probe;
use crate::storm::entry::Entry;
use crate::storm::url;

const CONNECTIONS: u32 = 8;

/// A store and a ledger of effects. The ledger has no unique constraint: what happens twice is
/// there twice.
#[derive(Debug)]
pub struct Effects {
    backend: Box<dyn Backend>,
    place: Place,
    /// What is removed when this ends.
    _folder: Option<TempDir>,
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Of which event, message or job.
    pub id: String,
    /// What whoever did it wanted to note.
    pub note: String,
    /// How often its claim had been acquired by then.
    pub attempts: i64,
}

impl Effects {
    /// In this store, or in a SQLite file in a temporary folder; with tables or keys of their own,
    /// that begin with `name`.
    ///
    /// # Errors
    ///
    /// When the store cannot be used.
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

    /// In this store, with tables or keys that begin with `namespace`, made unless they are there;
    /// they stay.
    ///
    /// # Errors
    ///
    /// When the store cannot be used.
    pub async fn open(url: &str, namespace: &str) -> Result<Self, BoxError> {
        let effects = Self::join(url, namespace).await?;
        effects.backend.create().await?;
        Ok(effects)
    }

    /// What another process has created, by its [`url`](Self::url) and
    /// [`namespace`](Self::namespace).
    ///
    /// # Errors
    ///
    /// When the store cannot be used.
    pub async fn join(url: &str, namespace: &str) -> Result<Self, BoxError> {
        let place = Place {
            url: url.to_owned(),
            namespace: namespace.to_owned(),
            connections: CONNECTIONS,
            worker: String::new(),
        };
        let backend = open(&place).await.map_err(|stop| stop.to_string())?;
        Ok(Self {
            backend,
            place,
            _folder: None,
        })
    }

    /// Where the store is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.place.url
    }

    /// What its tables or keys begin with.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.place.namespace
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn IdempotencyStore> {
        self.backend.store()
    }

    /// Which software it is, and where.
    ///
    /// # Errors
    ///
    /// When it does not say.
    pub async fn product(&self) -> Result<String, BoxError> {
        let place = match (&self._folder, url::scheme(&self.place.url)) {
            (Some(_), _) => "temporary file".to_owned(),
            (None, "sqlite") => self.place.url.clone(),
            (None, _) => url::without_credentials(&self.place.url),
        };
        Ok(format!("{} ({place})", self.backend.product().await?))
    }

    /// Makes the effect happen and seals the work's claim with the response: both or neither.
    ///
    /// # Errors
    ///
    /// When it is not known to have happened; the claim may be lost.
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

    /// Makes the effect happen, and nothing else: what goes wrong without a claim.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached.
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

    /// Whether all of these have come to an end: done, or failed for good.
    ///
    /// # Errors
    ///
    /// When the store does not say.
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

    /// All effects, in the order in which they were written.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached.
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
    /// When the store cannot be reached.
    pub async fn remove(self) -> Result<(), BoxError> {
        self.backend.remove().await
    }
}
