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

use idem_core::BoxError;

pub use scene::{Meter, Scene};

use crate::{Backend, Contender, Plan, Row};
use scene::{Heat, Race};

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

/// A path of a backend, while its scenes are built and measured.
struct Visit<'v> {
    backend: &'v Backend,
    plan: &'v Plan,
    meter: &'v mut dyn Meter,
}

impl Visit<'_> {
    fn scene(
        &self,
        path: &'static str,
        callers: &'static [usize],
        contenders: Vec<Box<dyn Contender>>,
        rows: fn(&Heat) -> Vec<Row>,
    ) -> Scene {
        Scene::new((path, self.backend.name(), callers), contenders, rows)
    }

    /// Compares the first contender with each of the others.
    async fn compare(
        &mut self,
        path: &'static str,
        callers: &'static [usize],
        contenders: Vec<Box<dyn Contender>>,
    ) -> Result<(), BoxError> {
        let scene = self.scene(path, callers, contenders, Heat::rows);
        self.meter.measure(scene).await
    }
}

/// Builds the scenes of a path and passes each to the meter. If the backend does not support the
/// path, there is no scene.
///
/// # Errors
///
/// The backend's and the meter's errors; an error when there is no such path.
pub async fn visit(
    path: &str,
    backend: &Backend,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    let name = backend.name();
    let visit = Visit {
        backend,
        plan,
        meter,
    };
    match path {
        "hybrid" if name != hybrid::NAME => Ok(()),
        "hybrid" => hybrid::visit(visit).await,
        // On other paths a hybrid performs like its database.
        _ if name == hybrid::NAME => Ok(()),
        "claim_fresh" => key::claim_fresh(visit).await,
        "claim_complete" => key::claim_complete(visit).await,
        "replay" => key::replay(visit).await,
        "payload" => key::payload(visit).await,
        "run" => run::visit(visit).await,
        "contended" => contended::visit(visit).await,
        "locked_key" => beside::locked_key(visit).await,
        "purge" => beside::purge(visit).await,
        "bulk_load" => bulk_load::visit(visit).await,
        "table_size" => table_size::visit(visit).await,
        "cold_start" => start::visit(visit).await,
        "http" | "memory_life" if name != "memory" => Ok(()),
        "http" => http::visit(visit).await,
        "memory_life" => memory_life::visit(visit).await,
        _ => Err(format!("no path is called {path}").into()),
    }
}

/// Measures one path of a backend: lets the contenders of each scene take turns.
///
/// # Errors
///
/// As for [`visit`].
pub async fn measure(path: &str, backend: &Backend, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let mut race = Race::new(plan);
    visit(path, backend, plan, &mut race).await?;
    Ok(race.into_rows())
}
