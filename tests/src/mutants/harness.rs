//! The harness of a mutant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{BatchStore, BoxError, IdempotencyStore};

use super::transactions::Transaction;
use super::{Bug, MutantStore};
use crate::{CallerTransaction, Harness, Product, Profile};

/// Opens stores with a bug.
#[derive(Debug)]
pub struct MutantHarness {
    bug: Bug,
    max_wait: Duration,
    stores: Mutex<HashMap<String, MutantStore>>,
}

impl MutantHarness {
    /// Creates stores with this bug; those with a bug get short time-outs.
    #[must_use]
    pub fn new(bug: Bug) -> Self {
        Self {
            bug,
            max_wait: Duration::from_secs(if bug == Bug::None { 30 } else { 2 }),
            stores: Mutex::default(),
        }
    }

    fn stores(&self) -> MutexGuard<'_, HashMap<String, MutantStore>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, namespace: &str) -> Result<MutantStore, BoxError> {
        let mut stores = self.stores();
        if self.bug == Bug::Volatile {
            let store = || MutantStore::new(self.bug);
            stores.entry(namespace.to_owned()).or_insert_with(store);
        }
        Ok(stores.get(namespace).ok_or("no such namespace")?.handle())
    }
}

#[async_trait]
impl Harness for MutantHarness {
    fn name(&self) -> &str {
        // Worker processes find it by its name.
        match self.bug {
            Bug::Volatile => "volatile",
            _ => "mutant",
        }
    }

    fn profile(&self) -> Profile {
        let profile = Profile::new().batch().checkpoints().watermarks().admin();
        let profile = profile.transactions().row_locks();
        let profile = profile.with_max_wait(self.max_wait);
        match self.bug {
            Bug::Volatile => profile.one_process_at_a_time().durable(),
            _ => profile,
        }
    }

    async fn product(&self) -> Result<Product, BoxError> {
        Ok(Product::new(
            format!("{:?}", self.bug),
            env!("CARGO_PKG_VERSION"),
        ))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let name = format!("{:x}", rand::random::<u64>());
        self.stores()
            .insert(name.clone(), MutantStore::new(self.bug));
        Ok(name)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.handle(namespace)?))
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(self.handle(namespace)?)))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        Ok(Some(Box::new(Transaction::begin(self.handle(namespace)?))))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.stores().remove(namespace);
        Ok(())
    }
}
