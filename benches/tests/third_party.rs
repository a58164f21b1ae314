//! A backend that is not of the family is measured, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_benches::{Backend, Handle, Plan, Share, Statements, Suite, measure};
use idem_conformance::{Harness, Product, Profile, async_trait};
use idem_core::{BoxError, IdempotencyStore, MemoryStore};

/// Its one store.
#[derive(Clone, Default)]
struct Foreign {
    store: MemoryStore,
    rows: Arc<Rows>,
}

type Rows = Mutex<HashMap<String, Vec<u8>>>;

#[async_trait]
impl Harness for Foreign {
    fn name(&self) -> &str {
        "foreign"
    }

    fn profile(&self) -> Profile {
        Profile::new()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        Ok(Product::new("Foreign", "1"))
    }

    async fn create(&self) -> Result<String, BoxError> {
        Ok("the only one".to_owned())
    }

    async fn open(&self, _: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.store.clone()))
    }

    async fn destroy(&self, _: &str) -> Result<(), BoxError> {
        Ok(())
    }
}

/// With what is written by hand.
struct Compared(Suite<Foreign>);

#[async_trait]
impl Backend for Compared {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn create(&self) -> Result<String, BoxError> {
        self.0.create().await
    }

    async fn open(&self, namespace: &str) -> Result<Handle, BoxError> {
        self.0.open(namespace).await
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.0.destroy(namespace).await
    }

    fn share(&self) -> Option<Share> {
        Some(Share::Each(2))
    }

    async fn held(&self, _: &str) -> Result<Arc<dyn Statements>, BoxError> {
        Ok(Arc::new(Table(Arc::clone(&self.0.0.rows))))
    }
}

struct Table(Arc<Rows>);

#[async_trait]
impl Statements for Table {
    async fn insert(&self, id: &str) -> Result<(), BoxError> {
        let before = self.0.lock().unwrap().insert(id.to_owned(), Vec::new());
        before.map_or(Ok(()), |_| Err("not fresh".into()))
    }

    async fn update(&self, id: &str, response: &[u8]) -> Result<(), BoxError> {
        let before = self
            .0
            .lock()
            .unwrap()
            .insert(id.to_owned(), response.to_vec());
        before.map(drop).ok_or_else(|| "no such key".into())
    }

    async fn select(&self, id: &str) -> Result<usize, BoxError> {
        let rows = self.0.lock().unwrap();
        Ok(rows.get(id).ok_or("no such key")?.len())
    }
}

/// No time at all: each caller has one operation in a round.
const PLAN: Plan = Plan {
    repetitions: 2,
    round: Duration::ZERO,
    warm_up: Duration::ZERO,
    quick: true,
};

async fn rows(backend: impl Backend, path: &str) -> Vec<(String, usize, String)> {
    let backend: Arc<dyn Backend> = Arc::new(backend);
    let rows = measure(path, &backend, &PLAN).await.unwrap();
    let rows = rows.into_iter();
    rows.map(|row| (row.path, row.callers, row.baseline))
        .collect()
}

#[tokio::test]
async fn a_harness_is_all_that_is_needed() {
    for path in [
        "claim_fresh",
        "claim_complete",
        "replay",
        "payload",
        "cold_start",
    ] {
        let rows = rows(Suite(Foreign::default()), path).await;
        assert!(!rows.is_empty(), "{path}");
        assert!(rows.iter().all(|(.., base)| base == "idem"), "{rows:?}");
    }
}

#[tokio::test]
async fn a_store_is_compared_with_the_bare_statements() {
    let compared = || Compared(Suite(Foreign::default()));
    let row = |path: &str, callers, base: &str| (path.to_owned(), callers, base.to_owned());
    let wanted: Vec<_> = [1, 64, 512]
        .map(|callers| row("claim_fresh", callers, "bare held"))
        .into();
    assert_eq!(rows(compared(), "claim_fresh").await, wanted);
    assert_eq!(
        rows(compared(), "contended").await,
        [
            row("contended", 64, "claim + replay"),
            row("contended_each_asks", 64, "claim + replay")
        ]
    );
    for path in ["table_size", "purge", "locked_key", "hybrid", "memory_life"] {
        assert_eq!(rows(compared(), path).await, []);
    }
}
