//! [`Habits`]: which operations are mostly asked for again.

use std::sync::atomic::{AtomicU8, Ordering};

/// Operations that are told apart; more than that share.
const PLACES: usize = 256;

/// What is learnt from the answers of the last claims of an operation: whether it pays to look for a record before
/// one is claimed.
///
/// A hint, no more: whoever is wrong about it asks once more. So it is kept without locks, an update may be lost, and
/// two operations may share a place.
#[derive(Debug)]
pub(crate) struct Habits {
    /// From 0, all were fresh, to 255, none was.
    shares: Box<[AtomicU8; PLACES]>,
}

impl Habits {
    pub(crate) fn new() -> Self {
        Self {
            shares: Box::new([const { AtomicU8::new(0) }; PLACES]),
        }
    }

    /// Whether most of the last claims of this operation were of keys that were taken.
    pub(crate) fn expects_a_record(&self, operation: &str) -> bool {
        self.share(operation).load(Ordering::Relaxed) > u8::MAX / 2
    }

    /// Learns from one more claim; each of them counts an eighth.
    pub(crate) fn learn(&self, operation: &str, was_taken: bool) {
        let share = self.share(operation);
        let before = share.load(Ordering::Relaxed);
        let after = if was_taken {
            before + (u8::MAX - before).div_ceil(8)
        } else {
            before - before.div_ceil(8)
        };
        // At its end it stays as it is, and is not taken from other threads' caches.
        if after != before {
            share.store(after, Ordering::Relaxed);
        }
    }

    /// By FNV-1a, <http://www.isthe.com/chongo/tech/comp/fnv/>.
    fn share(&self, operation: &str) -> &AtomicU8 {
        let hash = operation.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        &self.shares[hash as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(habits: &Habits, operation: &str, was_taken: bool) -> usize {
        let before = habits.expects_a_record(operation);
        let mut claims = 0;
        while habits.expects_a_record(operation) == before && claims < 1000 {
            habits.learn(operation, was_taken);
            claims += 1;
        }
        claims
    }

    #[test]
    fn a_handful_of_claims_changes_a_habit() {
        let habits = Habits::new();
        assert!(!habits.expects_a_record("pay"), "nothing is known yet");
        assert!((2..20).contains(&learnt(&habits, "pay", true)));
        assert!(!habits.expects_a_record("build"), "another operation");
        for _ in 0..1000 {
            habits.learn("pay", true);
        }
        assert!((2..20).contains(&learnt(&habits, "pay", false)));
    }

    #[test]
    fn one_in_eight_does_not() {
        let habits = Habits::new();
        for claim in 0..1000 {
            habits.learn("fresh", claim % 8 == 0);
            habits.learn("again", claim % 8 != 0);
            assert!(!habits.expects_a_record("fresh"));
        }
        assert!(habits.expects_a_record("again"));
    }
}
