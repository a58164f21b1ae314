//! Stores of other crates.

use std::sync::Arc;
use std::time::Duration;

use idem_core::BoxError;
use idem_redis::redis::Client;
use idempotent::IdempotencyEntry;
use idempotent::fingerprint::{DefaultFingerprintStrategy, FingerprintStrategy};
use idempotent::key::IdempotencyKey;
use idempotent::store::valkey::ValkeyStore;
use idempotent::store::{IdempotencyStore, InsertResult};
use tokio::sync::OnceCell;

use crate::ids::text;
use crate::{Extras, Ids, Measured, Operation};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A claim of a fresh key in the store for Valkey and Redis of the crate `idempotent`, 0.3: later versions need a newer
/// compiler.
struct IdempotentCrate {
    url: String,
    store: OnceCell<Arc<ValkeyStore>>,
}

impl IdempotentCrate {
    async fn connect(&self) -> Result<Arc<ValkeyStore>, BoxError> {
        let client = Client::open(self.url.as_str())?;
        Ok(Arc::new(ValkeyStore::new(client).await?))
    }
}

impl Operation for IdempotentCrate {
    type Caller = (Arc<ValkeyStore>, Ids);

    async fn caller(&self, _: usize) -> Result<Self::Caller, BoxError> {
        let store = self.store.get_or_try_init(|| self.connect()).await?;
        Ok((Arc::clone(store), Ids::series()))
    }

    async fn step(&self, (store, ids): &mut Self::Caller) -> Result<(), BoxError> {
        let key = IdempotencyKey::new(text(&ids.next_id()))?;
        let fingerprint = DefaultFingerprintStrategy.compute("payments.create", b"request");
        let entry = IdempotencyEntry::new(fingerprint, DAY);
        match store.try_insert(&key, entry).await? {
            InsertResult::Claimed { .. } => Ok(()),
            InsertResult::Exists(_) => Err("the key was not fresh".into()),
        }
    }
}

impl Extras {
    /// The same with stores of other crates, at 512 callers.
    #[must_use]
    pub fn and_rivals(self) -> Self {
        ["redis", "valkey"].into_iter().fold(self, |extras, name| {
            let Some(url) = idem_servers::url_for(name) else {
                return extras;
            };
            let make = move || {
                let operation = IdempotentCrate {
                    url: url.clone(),
                    store: OnceCell::new(),
                };
                Some(Measured::boxed("idempotent crate", operation) as _)
            };
            extras.with((name, "claim_fresh", 512), make)
        })
    }
}
