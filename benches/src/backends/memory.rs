//! The memory of this process.

use std::sync::Arc;

use async_trait::async_trait;
use dashmap::DashMap;
use idem_conformance::{Harness, Product, Profile};
use idem_core::{BoxError, IdempotencyStore, MemoryStore};
use idem_stores::random_name;

use crate::backend::one_row;
use crate::{Backend, Baseline, Statements};

/// A sharded map, which replaces `INSERT` and `UPDATE` without a server.
type Map = DashMap<String, Option<Box<[u8]>>>;

/// The stores and maps by namespace.
#[derive(Clone, Default)]
struct Memory(Arc<DashMap<String, (MemoryStore, Arc<Map>)>>);

/// Returns the memory store.
pub(super) fn backend() -> Backend {
    let memory = Memory::default();
    Backend::new(memory.clone()).with_baseline(memory)
}

impl Memory {
    fn namespace(&self, namespace: &str) -> Result<(MemoryStore, Arc<Map>), BoxError> {
        let made = self.0.get(namespace).ok_or("no such namespace")?;
        Ok(made.clone())
    }
}

#[async_trait]
impl Harness for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn profile(&self) -> Profile {
        Profile::new()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        Ok(Product::new("MemoryStore", env!("CARGO_PKG_VERSION")))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let namespace = random_name();
        let stores = (MemoryStore::new(), Arc::default());
        self.0.insert(namespace.clone(), stores);
        Ok(namespace)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.namespace(namespace)?.0))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.0.remove(namespace);
        Ok(())
    }
}

#[async_trait]
impl Baseline for Memory {
    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        Ok(Arc::new(Entries(self.namespace(namespace)?.1)))
    }
}

struct Entries(Arc<Map>);

#[async_trait]
impl Statements for Entries {
    async fn insert(&self, id: &str) -> Result<(), BoxError> {
        let before = self.0.insert(id.to_owned(), None);
        one_row(u64::from(before.is_none()))
    }

    async fn update(&self, id: &str, response: &[u8]) -> Result<(), BoxError> {
        let mut entry = self.0.get_mut(id).ok_or("no such key")?;
        *entry = Some(response.into());
        Ok(())
    }

    async fn select(&self, id: &str) -> Result<usize, BoxError> {
        let entry = self.0.get(id).ok_or("no such key")?;
        Ok(entry.as_deref().map_or(0, <[u8]>::len))
    }
}
