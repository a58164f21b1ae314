//! [`Traffic`]: whether claims of an operation are mostly of fresh keys or mostly duplicates.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, Ordering};

use idem_core::Key;

/// Operations whose hash is the same share what is learnt.
const SLOTS: usize = 256;

/// As many answers of the other sort as turn a settled guess round.
const MOST: u8 = 31;
const MIDDLE: u8 = 16;

/// What the traffic has taught, by scope and operation: which of two statements to try first.
///
/// A guess that is wrong costs a round trip and nothing else, so the counters are neither exact nor ordered.
pub(crate) struct Traffic {
    slots: [AtomicU8; SLOTS],
    hasher: RandomState,
}

impl Traffic {
    /// Nothing is known: keys are taken for fresh, and the first duplicate changes that.
    pub(crate) fn new() -> Self {
        Self {
            slots: [const { AtomicU8::new(MIDDLE - 1) }; SLOTS],
            hasher: RandomState::new(),
        }
    }

    /// What is known of the claims of this scope and operation.
    pub(crate) fn of(&self, key: &Key) -> Guess<'_> {
        let hash = self.hasher.hash_one((key.scope(), key.operation()));
        let slot = usize::try_from(hash % SLOTS as u64).unwrap_or_default();
        Guess(&self.slots[slot])
    }
}

impl std::fmt::Debug for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traffic").finish_non_exhaustive()
    }
}

/// What is known of one operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guess<'t>(&'t AtomicU8);

impl Guess<'_> {
    pub(crate) fn expects_duplicate(self) -> bool {
        self.0.load(Ordering::Relaxed) >= MIDDLE
    }

    /// What the key turned out to be.
    pub(crate) fn learn(self, duplicate: bool) {
        let count = self.0.load(Ordering::Relaxed);
        let learnt = if duplicate {
            count.saturating_add(1).min(MOST)
        } else {
            count.saturating_sub(1)
        };
        if learnt != count {
            self.0.store(learnt, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_most_is_expected() {
        let traffic = Traffic::new();
        let key = Key::new("tenant", "pay", "one").unwrap();
        let guess = traffic.of(&key);
        assert!(!guess.expects_duplicate(), "nothing was seen yet");
        guess.learn(true);
        assert!(guess.expects_duplicate());
        (0..1000).for_each(|_| guess.learn(true));
        guess.learn(false);
        assert!(guess.expects_duplicate(), "one in a thousand");
        (0..1000).for_each(|_| guess.learn(false));
        guess.learn(true);
        assert!(!guess.expects_duplicate());
    }

    #[test]
    fn an_operation_is_known_by_scope_and_name() {
        let traffic = Traffic::new();
        let at = |scope: &str, operation: &str, id: &str| {
            let key = Key::new(scope, operation, id).unwrap();
            std::ptr::from_ref(traffic.of(&key).0)
        };
        assert_eq!(at("a", "pay", "1"), at("a", "pay", "2"));
        let others = (0..64).map(|n| at("a", &format!("pay-{n}"), "1"));
        assert!(others.into_iter().any(|other| other != at("a", "pay", "1")));
    }
}
