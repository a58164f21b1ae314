//! The store of another crate.

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
use crate::operations::Operation;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Claims of fresh keys in the store for Valkey and Redis of the crate `idempotent`, 0.3: later
/// versions need a newer compiler.
pub(crate) struct Rival {
    url: String,
    store: OnceCell<Arc<ValkeyStore>>,
}

impl Rival {
    pub(crate) const NAME: &str = "idempotent crate";

    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            store: OnceCell::new(),
        }
    }
}

impl Operation for Rival {
    type Connection = Arc<ValkeyStore>;

    async fn connect(&self) -> Result<Self::Connection, BoxError> {
        let connect = async || {
            let client = Client::open(self.url.as_str())?;
            Ok::<_, BoxError>(Arc::new(ValkeyStore::new(client).await?))
        };
        self.store.get_or_try_init(connect).await.cloned()
    }

    async fn step(&self, store: &mut Self::Connection, id: &str) -> Result<(), BoxError> {
        let key = IdempotencyKey::new(text(id))?;
        let fingerprint = DefaultFingerprintStrategy.compute("payments.create", b"request");
        let entry = IdempotencyEntry::new(fingerprint, DAY);
        match store.try_insert(&key, entry).await? {
            InsertResult::Claimed { .. } => Ok(()),
            InsertResult::Exists(_) => Err("the key was not fresh".into()),
        }
    }
}
