//! [`Moment`]: an instant from which more time may have passed than the monotonic clock says.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// An instant by both clocks. The monotonic one stands still while the machine sleeps; the wall
/// clock may be set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    monotonic: Instant,
    wall: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self {
            monotonic: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// Returns the time since then, by the clock that shows more.
    pub(crate) fn elapsed(&self) -> Duration {
        let wall = self.wall.elapsed().unwrap_or_default();
        self.monotonic.elapsed().max(wall)
    }
}
