//! [`Absent`]: locked keys that had no record a moment ago.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use idem_core::Key;

/// For so long nobody looks again. What commits meanwhile is found by who asks again.
const RECENT: Duration = Duration::from_millis(10);

const MANY: usize = 1024;

/// Spares the server the reads of callers who ask for a locked key again and again. It changes no verdict: who is not
/// answered by a read is told to ask again.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    hasher: RandomState,
    looked: Mutex<HashMap<u64, Instant>>,
}

impl Absent {
    /// Somebody who looked at this moment found no record.
    pub(crate) fn note(&self, key: &Key, looked: Instant) {
        let mut known = self.looked();
        if known.len() >= MANY {
            known.retain(|_, looked| looked.elapsed() < RECENT);
        }
        known.insert(self.hasher.hash_one(key), looked);
    }

    /// How long nobody looks again, where somebody has looked just now. Who is refused without a look waits for as long,
    /// without a connection: a caller who asks again at once would keep the processor busy.
    pub(crate) fn pause(&self, key: &Key) -> Option<Duration> {
        let looked = self.looked().get(&self.hasher.hash_one(key)).copied();
        let left = RECENT.saturating_sub(looked?.elapsed());
        (!left.is_zero()).then_some(left)
    }

    fn looked(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_recent_for_a_moment() {
        let absent = Absent::default();
        let key = |id: u128| Key::new("tenant", "pay", id.to_string()).unwrap();
        assert_eq!(absent.pause(&key(0)), None);
        let old = Instant::now().checked_sub(RECENT).unwrap();
        absent.note(&key(0), old);
        assert_eq!(absent.pause(&key(0)), None);
        for id in 1..3000 {
            absent.note(&key(id), old);
        }
        assert!(absent.looked().len() <= MANY, "what is old is forgotten");
        let later = Instant::now() + RECENT;
        absent.note(&key(0), later);
        assert!(absent.pause(&key(0)).is_some());
    }
}
