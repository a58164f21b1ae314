//! [`Traffic`]: what the claims of an operation have mostly met.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU16, Ordering};

use idem_core::Key;

use crate::config::ClaimOrder;

/// How many operations are told apart; those that share a place share what is learnt.
const PLACES: usize = 256;

/// The share of fresh keys that counts as all of them.
const ALL: u16 = 1 << 10;

/// From here on a key is expected to be fresh.
const MOSTLY: u16 = ALL / 2;

/// A claim moves what is known by this part of what is new in it.
const WEIGHT: u16 = 16;

/// The key's operation is completed in callers' transactions, which keep records locked: an insert that comes first would
/// wait for them, where a look is answered at once.
const LOCKED: u16 = u16::MAX;

/// For each scope and operation how large the share of fresh keys was lately: whether a claim had better insert first, or
/// look first. A wrong guess costs a round trip and nothing else, so updates that get lost in a race do no harm.
pub(crate) struct Traffic {
    order: ClaimOrder,
    hasher: RandomState,
    shares: [AtomicU16; PLACES],
}

impl Traffic {
    /// Nothing is known yet: keys are looked for first.
    pub(crate) fn new(order: ClaimOrder) -> Self {
        Self {
            order,
            hasher: RandomState::new(),
            shares: [const { AtomicU16::new(0) }; PLACES],
        }
    }

    fn share(&self, key: &Key) -> &AtomicU16 {
        let hash = self.hasher.hash_one((key.scope(), key.operation()));
        &self.shares[(hash % PLACES as u64) as usize]
    }

    /// Whether the insert comes first.
    pub(crate) fn is_mostly_fresh(&self, key: &Key) -> bool {
        match self.order {
            ClaimOrder::LookFirst => false,
            ClaimOrder::InsertFirst => true,
            ClaimOrder::Learnt => {
                let share = self.share(key).load(Ordering::Relaxed);
                (MOSTLY..=ALL).contains(&share)
            }
        }
    }

    /// There was no record.
    pub(crate) fn met_none(&self, key: &Key) {
        let share = self.share(key);
        let known = share.load(Ordering::Relaxed);
        if known < ALL {
            share.store(known + (ALL - known).div_ceil(WEIGHT), Ordering::Relaxed);
        }
    }

    /// There was one.
    pub(crate) fn met_record(&self, key: &Key) {
        let share = self.share(key);
        let known = share.load(Ordering::Relaxed);
        if (1..=ALL).contains(&known) {
            share.store(known - known.div_ceil(WEIGHT), Ordering::Relaxed);
        }
    }

    /// A caller's transaction has locked such a record: from now on the store looks first, whatever it meets.
    pub(crate) fn met_transaction(&self, key: &Key) {
        self.share(key).store(LOCKED, Ordering::Relaxed);
    }
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traffic").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(operation: &str) -> Key {
        Key::new("tenant", operation, "one").expect("a key")
    }

    #[test]
    fn the_order_follows_the_traffic_and_back() {
        let (traffic, key) = (Traffic::new(ClaimOrder::Learnt), key("pay"));
        assert!(!traffic.is_mostly_fresh(&key), "nothing is known yet");
        for _ in 0..2 {
            for _ in 0..100 {
                traffic.met_none(&key);
            }
            assert!(traffic.is_mostly_fresh(&key));
            traffic.met_record(&key);
            assert!(traffic.is_mostly_fresh(&key), "one is not most");
            for _ in 0..100 {
                traffic.met_record(&key);
            }
            assert!(!traffic.is_mostly_fresh(&key));
        }
    }

    #[test]
    fn an_operation_in_transactions_is_looked_for_for_good() {
        let (traffic, key) = (Traffic::new(ClaimOrder::Learnt), key("pay"));
        traffic.met_transaction(&key);
        for _ in 0..100 {
            traffic.met_none(&key);
            traffic.met_record(&key);
        }
        for _ in 0..100 {
            traffic.met_none(&key);
        }
        assert!(!traffic.is_mostly_fresh(&key));
    }
}
