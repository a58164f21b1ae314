//! [`Clock`]: what time it is, for signatures that carry one.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// What time it is. A signature's age is judged by this clock; what is kept is judged by the
/// store's.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Seconds since 1970-01-01T00:00:00Z.
    fn unix_seconds(&self) -> u64;
}

/// The machine's clock. Keep it in step (NTP): one that is off by more than the tolerance refuses
/// every delivery whose signature carries a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_seconds(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }
}
