//! The whole harness of a store that is not of the family.
use std::{process::ExitCode, sync::Arc};

use idem_conformance::idem_core::{BoxError, IdempotencyStore};
use idem_conformance::{Harness, Product, Profile, Target, async_trait, main as conformance};
use idem_foreign_store::FileStore;

struct Foreign;

#[async_trait]
impl Harness for Foreign {
    fn name(&self) -> &str {
        "foreign"
    }

    fn profile(&self) -> Profile {
        let profile = Profile::new().with_max_result_bytes(64 << 10);
        profile.shared_between_processes().durable()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        Ok(Product::new("JSON file", env!("CARGO_PKG_VERSION")))
    }

    async fn create(&self) -> Result<String, BoxError> {
        Ok(tempfile::tempdir()?.keep().display().to_string())
    }

    async fn open(&self, folder: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(FileStore::new(format!("{folder}/file.json"))))
    }

    async fn destroy(&self, folder: &str) -> Result<(), BoxError> {
        Ok(std::fs::remove_dir_all(folder)?)
    }
}

fn main() -> ExitCode {
    conformance(vec![Target::new("foreign", async || Ok(Foreign))])
}
