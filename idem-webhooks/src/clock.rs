//! [`Clock`]: the current time, for signatures that carry one.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// The current time. It decides the age of a signature; the store's own clock decides about
/// records.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the seconds since 1970-01-01T00:00:00Z.
    fn unix_seconds(&self) -> u64;
}

/// The machine's clock. Synchronize it (NTP): a clock that is off by more than the tolerance
/// refuses every delivery whose signature carries a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_seconds(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }
}
