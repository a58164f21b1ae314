//! The measurements, path by path.

mod beside;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "hybrid")]
mod hybrid;
mod key;
mod list;
mod race;
mod scene;
mod tables;
mod wrappers;

use idem_core::BoxError;

pub use scene::{Meter, Scene};

use crate::arena::Arena;
use crate::operations::Life;
use crate::{Backend, Plan, Row};
use race::Race;

/// The paths, in the order of reports.
pub const PATHS: [&str; 17] = [
    "claim_fresh",
    "claim_complete",
    "replay",
    "pay",
    "run",
    "http",
    "protected",
    "contended",
    "locked_key",
    "payload",
    "hybrid",
    "purge",
    "list",
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

/// One hour, in microseconds.
const HOUR: i64 = 3_600_000_000;

/// A path of a backend, while its scenes are built and measured.
struct Visit<'v> {
    backend: &'v Backend,
    plan: &'v Plan,
    meter: &'v mut dyn Meter,
    /// The namespaces of the scenes so far.
    arenas: Vec<Arena>,
}

impl Visit<'_> {
    /// Creates a namespace of the backend, which [`close`](Self::close) removes.
    async fn arena(&mut self) -> Result<Arena, BoxError> {
        self.arena_of(self.backend).await
    }

    /// Creates a namespace of another backend.
    async fn arena_of(&mut self, backend: &Backend) -> Result<Arena, BoxError> {
        let arena = Arena::new(backend).await?;
        self.arenas.push(arena.clone());
        Ok(arena)
    }

    async fn measure(&mut self, mut scene: Scene) -> Result<(), BoxError> {
        self.backend.name().clone_into(&mut scene.backend);
        self.meter.measure(scene).await
    }

    /// Removes the namespaces.
    async fn close(&mut self) -> Result<(), BoxError> {
        for arena in self.arenas.drain(..) {
            arena.close().await?;
        }
        Ok(())
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
    let mut visit = Visit {
        backend,
        plan,
        meter,
        arenas: Vec::new(),
    };
    let visited = visit_path(path, &mut visit).await;
    visited.and(visit.close().await)
}

async fn visit_path(path: &str, visit: &mut Visit<'_>) -> Result<(), BoxError> {
    match (path, visit.backend.name()) {
        #[cfg(feature = "hybrid")]
        ("hybrid", "hybrid") => hybrid::visit(visit).await,
        // On other paths a hybrid performs like its database.
        ("hybrid", _) | (_, "hybrid") => Ok(()),
        ("claim_fresh", _) => key::claim_fresh(visit).await,
        ("claim_complete", _) => {
            let callers = visit.plan.pick(&[64, 512][..], &[64]);
            key::life(visit, "claim_complete", callers, Life::complete()).await
        }
        ("replay", _) => {
            let callers = visit.plan.pick(&[1, 64, 512][..], &[1, 64]);
            key::life(visit, "replay", callers, Life::Replay).await
        }
        ("pay", _) => key::pay(visit).await,
        ("payload", _) => key::payload(visit).await,
        ("cold_start", _) => key::cold_start(visit).await,
        ("run", _) => wrappers::run(visit).await,
        ("protected", _) => wrappers::protected(visit).await,
        ("contended", _) => wrappers::contended(visit).await,
        ("locked_key", _) => beside::locked_key(visit).await,
        ("purge", _) => beside::purge(visit).await,
        ("list", _) => list::list(visit).await,
        ("bulk_load", _) => tables::bulk_load(visit).await,
        ("table_size", _) => tables::table_size(visit).await,
        #[cfg(feature = "http")]
        ("http", "memory") => http::visit(visit).await,
        #[cfg(not(feature = "http"))]
        ("http", "memory") => {
            crate::backends::lacks("the path http", "http");
            Ok(())
        }
        ("memory_life", "memory") => key::memory_life(visit).await,
        ("http" | "memory_life", _) => Ok(()),
        _ => Err(format!("no path is called {path}").into()),
    }
}

/// Measures one path of a backend: lets the contenders of each scene take turns.
///
/// # Errors
///
/// As for [`visit`].
pub async fn measure(path: &str, backend: &Backend, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let mut race = Race {
        plan: *plan,
        rows: Vec::new(),
    };
    visit(path, backend, plan, &mut race).await?;
    Ok(race.rows)
}
