//! Access of the tests to DuckDB.

mod adapter;

use std::path::{Path, PathBuf};

use idem_conformance::Profile;
use idem_core::BoxError;
use idem_duckdb::{Config, DuckDbStore};
use idem_stores::{Adapter, Suite};

pub(crate) use adapter::DuckDb;

/// Creates a target. A second process cannot open the file, so the cases of several processes are
/// not for this store, except those in which one comes after another.
pub(crate) fn target<A: Adapter>(name: &str, adapter: A) -> Suite<A> {
    let profile = Profile::new().one_process_at_a_time().durable();
    let profile = profile
        .with_slots_per_core(2)
        .batch()
        .checkpoints()
        .watermarks()
        .admin();
    Suite::new(name, adapter, profile.transactions().row_locks().damage())
}

/// Returns the path of the database in this folder.
pub(crate) fn file(folder: impl AsRef<Path>) -> PathBuf {
    folder.as_ref().join(DuckDb::FILE)
}

/// Opens a store on the file in this folder.
pub(crate) async fn store(folder: &str) -> Result<DuckDbStore, BoxError> {
    Ok(DuckDbStore::connect(file(folder), Config::new()).await?)
}
