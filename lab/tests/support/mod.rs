//! Recorded traffic.

use std::sync::Arc;

use idem_core::IdempotencyStore;
use idem_prove::history::{Calls, Head, Recorded, Recorder, VERSION};
use idem_prove::traffic::{Plan, drive};

/// Returns what callers saw, and how many calls had no answer in time.
pub(crate) fn record(name: &str, store: impl IdempotencyStore, plan: Plan) -> (Calls, usize) {
    let folder = tempfile::tempdir().unwrap();
    let head = Head {
        v: VERSION,
        cell: name.to_owned(),
        seed: plan.seed,
        quantum: 1,
        asks_again: false,
        caches: false,
    };
    let recorder = Recorder::create(&folder.path().join("0.ndjson"), head).unwrap();
    let recorded: Arc<dyn IdempotencyStore> = Arc::new(Recorded::new(store, recorder));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let late = runtime.block_on(drive(recorded, plan));
    runtime.shutdown_background();
    (Calls::read(folder.path()).unwrap(), late)
}
