//! The clock of a memory store.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// Wall-clock time at the store's creation, counted on by the monotonic clock: it never goes back,
/// whatever is done to the machine's clock.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    started_at: Timestamp,
}

impl Clock {
    pub(super) fn start() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            started_at: Timestamp::default().saturating_add(since_epoch),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.started_at.saturating_add(self.started.elapsed())
    }
}
