//! The suite against the memory store of `idem-core`, plain, behind TCP, and behind wrappers.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use idem_conformance::idem_core::{BatchStore, BoxError, IdempotencyStore, MemoryStore};
use idem_conformance::remote::RemoteHarness;
use idem_conformance::{
    Batched, Harness, Missing, Product, Profile, Protected, Target, async_trait,
    main as conformance,
};

#[derive(Default)]
struct Memory(Mutex<HashMap<String, MemoryStore>>);

impl Memory {
    fn store(&self, namespace: &str) -> Result<MemoryStore, BoxError> {
        let stores = self.0.lock().map_err(|error| error.to_string())?;
        Ok(stores.get(namespace).ok_or("no such namespace")?.clone())
    }
}

#[async_trait]
impl Harness for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn profile(&self) -> Profile {
        Profile::new().batch().checkpoints().watermarks().admin()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        Ok(Product::new(
            "idem-core MemoryStore",
            env!("CARGO_PKG_VERSION"),
        ))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let mut stores = self.0.lock().map_err(|error| error.to_string())?;
        let name = (0..)
            .map(|n: u64| n.to_string())
            .find(|name| !stores.contains_key(name));
        let name = name.ok_or("no name is left")?;
        stores.insert(name.clone(), MemoryStore::new());
        Ok(name)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.store(namespace)?))
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(self.store(namespace)?)))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.0
            .lock()
            .map_err(|error| error.to_string())?
            .remove(namespace);
        Ok(())
    }
}

async fn remote() -> Result<impl Harness, Missing> {
    RemoteHarness::start(MemoryStore::new).map_err(|error| Missing::new(error.to_string()))
}

fn main() -> ExitCode {
    let memory = Target::new("memory", || async { Ok(Memory::default()) });
    let remote = Target::new("remote", remote);
    let one_lane = || async { Ok(Batched::new(Memory::default())) };
    let one_lane = Target::new("memory-one-lane", one_lane).derived();
    let protected = || async { Ok(Protected::new(Memory::default())) };
    let protected = Target::new("memory-protected", protected).derived();
    conformance(vec![memory, remote, one_lane, protected])
}
