//! The storm on a store that is not of the family.
//!
//! ```sh
//! cargo run --release -p idem-foreign-store --example file_storm -- --requests 200
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use idem_core::{BoxError, IdempotencyStore};
use idem_foreign_store::FileStore;

fn main() -> ExitCode {
    idem_storm::storm::main_with("json-file", |folder| {
        Box::pin(async move {
            let store = FileStore::new(format!("{folder}/records.json"));
            Ok::<Arc<dyn IdempotencyStore>, BoxError>(Arc::new(store))
        })
    })
}
