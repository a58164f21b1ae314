//! What is measured, path by path.

mod claim_complete;
mod claim_fresh;
mod cold_start;
mod contended;
mod group;
mod hybrid;
mod locked_key;
mod memory_life;
mod payload;
mod purge;
mod replay;
mod run;
mod table_size;

use idem_core::BoxError;

pub use group::Group;

use crate::{Counted, Extras, Plan, Row, Subject};

/// Who takes turns.
pub type Contenders = Vec<Box<dyn Counted>>;

/// Who takes turns, path by path.
pub mod groups {
    pub use super::claim_complete::group as claim_complete;
    pub use super::claim_fresh::group as claim_fresh;
    pub use super::cold_start::group as cold_start;
    pub use super::contended::group as contended;
    pub use super::hybrid::{hit_group as hybrid_hit, miss_group as hybrid_miss};
    pub use super::locked_key::group as locked_key;
    pub use super::payload::{SIZES as PAYLOADS, group as payload};
    pub use super::purge::group as purge;
    pub use super::replay::group as replay;
    pub use super::run::{fresh_group as run_fresh, replayed_group as run_replayed};
    pub use super::table_size::{
        QUICK as TABLES_QUICK, SIZES as TABLES, Size as Table, group as table_size,
    };
}

/// The paths, in the order of reports.
pub const PATHS: [&str; 12] = [
    "claim_fresh",
    "claim_complete",
    "replay",
    "run",
    "contended",
    "locked_key",
    "payload",
    "hybrid",
    "purge",
    "table_size",
    "cold_start",
    "memory_life",
];

/// Measures one path of a backend. No rows where the backend has no such path.
///
/// # Errors
///
/// The harness's, the store's, the bare statements'; that there is no such path.
pub async fn measure(
    path: &str,
    subject: &Subject,
    plan: &Plan,
    extras: &Extras,
) -> Result<Vec<Row>, BoxError> {
    match path {
        "hybrid" => hybrid::measure(subject, plan).await,
        // A hybrid is what its database and its cache are, but for the one path.
        _ if subject.name() == "hybrid" => Ok(Vec::new()),
        "claim_fresh" => claim_fresh::measure(subject, plan, extras).await,
        "claim_complete" => claim_complete::measure(subject, plan, extras).await,
        "replay" => replay::measure(subject, plan, extras).await,
        "run" => run::measure(subject, plan).await,
        "contended" => contended::measure(subject, plan).await,
        "locked_key" => locked_key::measure(subject, plan).await,
        "payload" => payload::measure(subject, plan).await,
        "purge" => purge::measure(subject, plan).await,
        "table_size" => table_size::measure(subject, plan).await,
        "cold_start" => cold_start::measure(subject, plan).await,
        "memory_life" => memory_life::measure(subject, plan).await,
        _ => Err(format!("no path is called {path}").into()),
    }
}
