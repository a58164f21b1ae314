//! [`Point`] and [`Probe`]: where a worker is killed.

use serde::{Deserialize, Serialize};

use super::desk::say;
use super::protocol::Report;

/// A point in the handling of a delivery.
///
/// Only the holder of a claim passes the first three. A duplicate whose crash was planned there
/// crashes at the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// All points, in the order in which a delivery passes them.
    pub(crate) const ALL: [Self; 4] = [
        Self::Claimed,
        Self::Working,
        Self::Uncommitted,
        Self::Unanswered,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Working => "working",
            Self::Uncommitted => "uncommitted",
            Self::Unanswered => "unanswered",
        }
    }
}

/// The point where a delivery is killed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Probe {
    pub(crate) delivery: u32,
    pub(crate) crash: Option<Point>,
}

impl Probe {
    /// Passes the point, except when it is the one to be killed at: then it reports that and waits
    /// for the kill.
    pub(crate) async fn pass(self, point: Point) {
        if self.crash == Some(point) {
            self.stand(point).await;
        }
    }

    /// The last point. A crash planned for an earlier point, which a duplicate does not pass,
    /// happens here.
    pub(crate) async fn leave(self) {
        if self.crash.is_some() {
            self.stand(Point::Unanswered).await;
        }
    }

    async fn stand(self, point: Point) {
        say(&Report::Reached {
            delivery: self.delivery,
            point,
        });
        std::future::pending::<()>().await;
    }
}
