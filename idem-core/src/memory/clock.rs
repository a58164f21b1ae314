//! The clock of a memory store.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// Wall-clock time at the store's creation, advanced by the monotonic clock: it never goes back,
/// even if the machine's clock does.
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
