//! A backend from outside the family can be measured, too.

use std::sync::Arc;
use std::time::Duration;

use idem_benches::{Backend, PATHS, Plan, backends, measure};
use idem_conformance::{Harness, Product, Profile, async_trait};
use idem_core::{BoxError, IdempotencyStore, MemoryStore};

/// A backend with one store.
#[derive(Default)]
struct Foreign(MemoryStore);

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
        Ok(Arc::new(self.0.clone()))
    }

    async fn destroy(&self, _: &str) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Takes no time: each caller has one operation in a round.
const PLAN: Plan = Plan {
    repetitions: 2,
    round: Duration::ZERO,
    warm_up: Duration::ZERO,
    quick: true,
};

async fn rows(backend: Backend, path: &str) -> Vec<(String, usize, String)> {
    let rows = measure(path, &backend, &PLAN).await.unwrap();
    let rows = rows.into_iter();
    rows.map(|row| (row.path, row.callers, row.baseline))
        .collect()
}

#[tokio::test]
async fn a_harness_is_all_that_is_needed() {
    for path in PATHS {
        let rows = rows(Backend::new(Foreign::default()), path).await;
        let is_against = |base: &str| !rows.is_empty() && rows.iter().all(|row| row.2 == base);
        let is_measured = match path {
            "claim_fresh" | "claim_complete" | "replay" | "payload" | "cold_start" => {
                is_against("idem")
            }
            "protected" => rows.len() == 4 && rows.iter().all(|row| row.2 != "bare"),
            "run" => is_against("store's own calls"),
            "contended" => is_against("claim + replay"),
            _ => rows.is_empty(),
        };
        assert!(is_measured, "{path}: {rows:?}");
    }
}

#[tokio::test]
async fn a_store_is_compared_with_the_bare_statements() {
    let memory = || backends::backend("memory").unwrap();
    let row = |path: &str, callers, base: &str| (path.to_owned(), callers, base.to_owned());
    assert_eq!(
        rows(memory(), "claim_complete").await,
        [row("claim_complete", 64, "bare held")]
    );
    assert_eq!(
        rows(memory(), "contended").await,
        [row("contended", 64, "claim + replay")]
    );
}
