//! The measurements, path by path.

mod beside;
mod bulk_load;
mod contended;
mod http;
mod hybrid;
mod key;
mod memory_life;
mod run;
mod scene;
mod start;
mod table_size;

use std::sync::Arc;

use idem_core::BoxError;

pub use scene::{Meter, Scene};

use crate::{Backend, Plan, Row};
use scene::Race;

/// The paths, in the order of reports.
pub const PATHS: [&str; 14] = [
    "claim_fresh",
    "claim_complete",
    "replay",
    "run",
    "http",
    "contended",
    "locked_key",
    "payload",
    "hybrid",
    "purge",
    "bulk_load",
    "table_size",
    "cold_start",
    "memory_life",
];

/// The name of the store's own contender.
const IDEM: &str = "idem";
const HELD: &str = "bare held";

/// The number of completed keys that are read in turns.
const KEYS: usize = 200;

/// Builds the scenes of a path and passes each to the meter. If the backend does not support the
/// path, there is no scene.
///
/// # Errors
///
/// The backend's and the meter's errors; an error when there is no such path.
pub async fn visit(
    path: &str,
    backend: &Arc<dyn Backend>,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    match path {
        "hybrid" => hybrid::visit(backend, plan, meter).await,
        // On other paths a hybrid performs like its database.
        _ if backend.name() == hybrid::NAME => Ok(()),
        "claim_fresh" => key::claim_fresh(backend, plan, meter).await,
        "claim_complete" => key::claim_complete(backend, plan, meter).await,
        "replay" => key::replay(backend, plan, meter).await,
        "payload" => key::payload(backend, plan, meter).await,
        "run" => run::visit(backend, plan, meter).await,
        "http" => http::visit(backend, meter).await,
        "contended" => contended::visit(backend, meter).await,
        "locked_key" => beside::locked_key(backend, meter).await,
        "purge" => beside::purge(backend, plan, meter).await,
        "bulk_load" => bulk_load::visit(backend, meter).await,
        "table_size" => table_size::visit(backend, plan, meter).await,
        "cold_start" => start::visit(backend, meter).await,
        "memory_life" => memory_life::visit(backend, plan, meter).await,
        _ => Err(format!("no path is called {path}").into()),
    }
}

/// Measures one path of a backend: lets the contenders of each scene take turns.
///
/// # Errors
///
/// As for [`visit`].
pub async fn measure(
    path: &str,
    backend: &Arc<dyn Backend>,
    plan: &Plan,
) -> Result<Vec<Row>, BoxError> {
    let mut race = Race::new(plan);
    visit(path, backend, plan, &mut race).await?;
    Ok(race.into_rows())
}
