//! The messages between parent and workers: one JSON document per line, over the worker's standard
//! input and output.
//!
//! A worker reads in a thread that does nothing else, and the parent never has more deliveries
//! under way than a worker may handle at once, so neither can block the other.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::args::Sabotage;
use super::backend::Location;

/// The first line that a worker reads. It is not on the command line, because the URL may hold a
/// password.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Setup {
    #[serde(flatten)]
    pub(crate) location: Location,
    pub(crate) lease: Duration,
    pub(crate) sabotage: Option<Sabotage>,
}

/// Every other line that a worker reads: a delivery.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) delivery: u32,
    /// The key, as an `Idempotency-Key` header would carry it.
    pub(crate) key: String,
    /// The point at which to wait for the kill.
    pub(crate) crash: Option<Point>,
    pub(crate) payload: String,
}

/// A line that a worker writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The store is open.
    Ready,
    /// A delivery has ended.
    Handled { delivery: u32, end: End },
    /// The delivery has reached its planned crash: the parent kills the worker.
    Reached { delivery: u32, point: Point },
    /// The worker cannot continue.
    Fatal { message: String },
}

/// How a delivery ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    /// Whether it had to wait for another worker.
    pub(crate) waited: bool,
    /// How often the claim was lost before the commit.
    pub(crate) fenced: u32,
    /// The body of the answer.
    pub(crate) receipt: String,
}

/// What a delivery found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// This delivery had the effect.
    Fresh,
    /// The effect existed already; this is the stored answer.
    Replay,
    /// The key belongs to another payload: refused.
    Conflict,
}

/// A point in the handling of a delivery. Only the holder of a claim passes the first three. A
/// duplicate whose crash was planned there crashes at the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Point {
    /// The key is claimed, nothing is done yet.
    Claimed,
    /// In the middle of the work.
    Working,
    /// Effect and answer are written, the transaction is not committed.
    Uncommitted,
    /// The outcome is known (and committed), but the sender does not know it.
    Unanswered,
}

impl Point {
    /// All points with their names, in the order in which a delivery passes them.
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Self::Claimed, "claimed"),
        (Self::Working, "working"),
        (Self::Uncommitted, "uncommitted"),
        (Self::Unanswered, "unanswered"),
    ];
}
