//! [`DuplicateEstimator`]: whether the claims of an operation mostly meet a record.

use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::Key;

/// The number of slots. Operations that share a slot share an estimate.
const SLOTS: usize = 256;

/// The share of claims that met a record, when all of them did.
const ALL: u16 = 1 << 10;

/// The share from which a record is expected.
const MOSTLY: u16 = ALL / 2;

/// Each sample moves the estimate by this part of the difference.
const WEIGHT: u16 = 16;

/// Above every share, so a record is expected; no sample changes it.
const ALWAYS: u16 = u16::MAX;

/// Estimates which of two statements a claim should send first: for backends that can read a record
/// before they write, or write before they read. It knows, for each scope and operation, the share
/// of recent claims that met a record.
///
/// The estimate is a hint, never a proof: it forgets, it is wrong about the first claims after a
/// change, and operations may share a slot. A decision must not depend on it, only the order of the
/// statements that lead there. The estimator takes no locks; an update that is lost in a race does
/// no harm. A cheap hash without a key chooses the slot. A caller that chooses scopes in another's
/// slot costs that one a round trip per claim, and nothing else.
///
/// ```
/// use idem_core::backend::DuplicateEstimator;
/// use idem_core::Key;
///
/// let estimator = DuplicateEstimator::new();
/// let key = Key::new("tenant-7", "pay", "one")?;
/// assert!(!estimator.expects_duplicate(&key)); // so write first
/// (0..20).for_each(|_| estimator.record(&key, true)); // all those writes have met a record
/// assert!(estimator.expects_duplicate(&key)); // so look up first
/// # Ok::<(), idem_core::Error>(())
/// ```
pub struct DuplicateEstimator {
    shares: [AtomicU16; SLOTS],
}

impl DuplicateEstimator {
    /// Creates an estimator that takes unknown operations for fresh, until about a dozen claims
    /// have met a record.
    #[must_use]
    pub const fn new() -> Self {
        Self::starting_at::<0>()
    }

    /// Creates an estimator that expects a record for unknown operations, until about a dozen
    /// claims have met none. It suits servers where a write that meets a locked record waits for
    /// the lock.
    #[must_use]
    pub const fn expecting_duplicates() -> Self {
        Self::starting_at::<ALL>()
    }

    const fn starting_at<const START: u16>() -> Self {
        Self {
            shares: [const { AtomicU16::new(START) }; SLOTS],
        }
    }

    /// Returns whether most of the last claims of this scope and operation met a record, so that it
    /// pays to read first.
    #[must_use]
    pub fn expects_duplicate(&self, key: &Key) -> bool {
        self.share(key).load(Ordering::Relaxed) >= MOSTLY
    }

    /// Records one more claim, which counts a sixteenth: whether it met a record that answered it.
    pub fn record(&self, key: &Key, met_record: bool) {
        let share = self.share(key);
        let known = share.load(Ordering::Relaxed);
        let learnt = match met_record {
            _ if known > ALL => known,
            true => known + (ALL - known).div_ceil(WEIGHT),
            false => known - known.div_ceil(WEIGHT),
        };
        // At its limit the share is not written, so the cache line stays shared between threads.
        if learnt != known {
            share.store(learnt, Ordering::Relaxed);
        }
    }

    /// Expects a record from now on, whatever the samples say: for operations whose records stay
    /// locked, for example by callers' transactions, where a read is answered and a write waits.
    pub fn always_expect(&self, key: &Key) {
        self.share(key).store(ALWAYS, Ordering::Relaxed);
    }

    fn share(&self, key: &Key) -> &AtomicU16 {
        let hash = mixed(mixed(0, key.scope()), key.operation());
        // The high bits are the best mixed ones.
        &self.shares[(hash >> (u64::BITS - SLOTS.ilog2())) as usize]
    }
}

/// Mixes the text into the hash, eight bytes at a time, and its length, so that no two texts run
/// together.
fn mixed(hash: u64, text: &str) -> u64 {
    /// Odd, without a pattern: 2^64 divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = text.as_bytes().as_chunks();
    let hash = words
        .iter()
        .fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let hash = rest
        .iter()
        .fold(hash, |hash, byte| mix(hash, u64::from(*byte)));
    mix(hash, text.len() as u64)
}

impl Default for DuplicateEstimator {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for DuplicateEstimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuplicateEstimator").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(operation: &str) -> Key {
        Key::new("tenant", operation, "one").unwrap()
    }

    fn record(estimator: &DuplicateEstimator, key: &Key, met_record: bool, claims: u32) {
        (0..claims).for_each(|_| estimator.record(key, met_record));
    }

    /// Returns the number of such claims after which the expectation changes.
    fn claims_until_it_turns(estimator: &DuplicateEstimator, key: &Key, met_record: bool) -> usize {
        let before = estimator.expects_duplicate(key);
        (1..1000)
            .find(|_| {
                estimator.record(key, met_record);
                estimator.expects_duplicate(key) != before
            })
            .unwrap()
    }

    #[test]
    fn a_new_operation_is_taken_for_fresh() {
        let (estimator, key) = (DuplicateEstimator::new(), key("pay"));
        assert!(!estimator.expects_duplicate(&key), "nothing is known yet");
        assert!((8..20).contains(&claims_until_it_turns(&estimator, &key, true)));
    }

    #[test]
    fn a_new_operation_expects_duplicates_where_records_are_expected() {
        let (estimator, key) = (DuplicateEstimator::expecting_duplicates(), key("pay"));
        assert!(estimator.expects_duplicate(&key), "nothing is known yet");
        assert!((8..20).contains(&claims_until_it_turns(&estimator, &key, false)));
    }

    #[test]
    fn the_majority_is_expected_and_a_dozen_claims_change_that() {
        let (estimator, key) = (DuplicateEstimator::new(), key("pay"));
        for _ in 0..2 {
            record(&estimator, &key, true, 1000);
            record(&estimator, &key, false, 1);
            assert!(estimator.expects_duplicate(&key), "one is no majority");
            assert!((7..20).contains(&claims_until_it_turns(&estimator, &key, false)));
            record(&estimator, &key, false, 1000);
            record(&estimator, &key, true, 1);
            assert!(!estimator.expects_duplicate(&key), "one is no majority");
            assert!((7..20).contains(&claims_until_it_turns(&estimator, &key, true)));
        }
    }

    #[test]
    fn one_in_eight_changes_nothing() {
        let estimator = DuplicateEstimator::new();
        let [fresh, again] = ["fresh", "again"].map(key);
        for claim in 0..1000 {
            estimator.record(&fresh, claim % 8 == 0);
            estimator.record(&again, claim % 8 != 0);
            assert!(!estimator.expects_duplicate(&fresh));
        }
        assert!(estimator.expects_duplicate(&again));
    }

    #[test]
    fn an_operation_that_always_expects_duplicates_stays_so() {
        let (estimator, key) = (DuplicateEstimator::new(), key("pay"));
        estimator.always_expect(&key);
        for met_record in [false, true, false] {
            record(&estimator, &key, met_record, 100);
            assert!(estimator.expects_duplicate(&key));
        }
    }

    #[test]
    fn an_operation_is_known_by_scope_and_name() {
        let estimator = DuplicateEstimator::new();
        let slot = |scope: &str, operation: &str, id: &str| {
            let key = Key::new(scope, operation, id).unwrap();
            std::ptr::from_ref(estimator.share(&key))
        };
        assert_eq!(slot("a", "pay", "1"), slot("a", "pay", "2"));
        assert_ne!(slot("a", "pay", "1"), slot("b", "pay", "1"));
        assert_ne!(slot("a", "pay", "1"), slot("ap", "ay", "1"));
    }

    #[test]
    fn names_that_differ_little_are_spread() {
        let estimator = DuplicateEstimator::new();
        let slots = |name: &dyn Fn(usize) -> Key| {
            let slots = (0..SLOTS).map(|n| std::ptr::from_ref(estimator.share(&name(n))));
            slots.collect::<std::collections::HashSet<_>>().len()
        };
        // As many as there are slots; by chance, 162 of them would be taken.
        let operations = slots(&|n| key(&format!("payments.create-{n}")));
        let scopes = slots(&|n| Key::new(format!("tenant-{n}"), "pay", "one").unwrap());
        assert!(
            operations > 128 && scopes > 128,
            "{operations} and {scopes}"
        );
    }
}
