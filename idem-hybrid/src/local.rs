//! [`LocalCache`]: a tier in the memory of this process.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as StdInstant};

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{Key, Result};
use moka::Expiry;

use crate::moment::Moment;
use crate::{Cache, Hit, Lookup};

/// A power of two, so that the low bits of a hash choose the bucket.
const BUCKETS: usize = 1024;

/// The weight of an entry beside its bytes and its key's.
const OVERHEAD: usize = 200;

/// A cache of bounded size in this process, on [moka](https://docs.rs/moka).
///
/// For one database: stores of different databases must not share one. A clone is another handle of
/// the same cache.
///
/// An invalidation made by *another* process does not reach it: such an entry is served here until
/// its lifetime ends, by default [`DEFAULT_LIFETIME`](Self::DEFAULT_LIFETIME) at most. That bound
/// is the price of an answer without a round trip.
///
/// Lifetimes are measured by the monotonic and by the wall clock, and the longer time counts: a
/// machine that slept, or whose clock was set forward, forgets too much rather than too little.
#[derive(Clone)]
pub struct LocalCache {
    shared: Arc<Shared>,
    max_lifetime: Duration,
}

struct Shared {
    entries: moka::sync::Cache<Key, Kept>,
    epochs: Box<[Mutex<u64>]>,
    hasher: RandomState,
    max_bytes: u64,
}

/// The ticket that a read of [`LocalCache`] issues.
#[derive(Debug, Clone)]
pub struct LocalTicket {
    epoch: u64,
    issued: Moment,
}

#[derive(Clone)]
struct Kept {
    entry: Bytes,
    issued: Moment,
    lifetime: Duration,
}

impl Kept {
    /// Returns the entry, unless its lifetime is over.
    fn hit(self) -> Option<Hit> {
        let age = self.issued.elapsed();
        let remaining = self.lifetime.saturating_sub(age);
        (!remaining.is_zero()).then_some(Hit {
            entry: self.entry,
            age,
            remaining,
        })
    }
}

impl LocalCache {
    /// How long an entry is kept at most: 5 s.
    pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(5);

    /// Creates an empty cache of at most this many bytes of entries, keys and bookkeeping.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        let weigh = |key: &Key, kept: &Kept| {
            let key = key.scope().len() + key.operation().len() + key.id().len();
            u32::try_from(key + kept.entry.len() + OVERHEAD).unwrap_or(u32::MAX)
        };
        let entries = moka::sync::Cache::builder()
            .max_capacity(max_bytes)
            .weigher(weigh)
            .expire_after(WhenOver)
            .build();
        let shared = Shared {
            entries,
            epochs: (0..BUCKETS).map(|_| Mutex::new(0)).collect(),
            hasher: RandomState::new(),
            max_bytes,
        };
        Self {
            shared: Arc::new(shared),
            max_lifetime: Self::DEFAULT_LIFETIME,
        }
    }

    /// Sets how long this handle keeps an entry at most, and with it how long an invalidation by
    /// another process may go unnoticed.
    #[must_use]
    pub fn with_max_lifetime(mut self, lifetime: Duration) -> Self {
        self.max_lifetime = lifetime;
        self
    }

    /// Forgets everything, and voids all earlier tickets.
    pub fn clear(&self) {
        for bucket in &self.shared.epochs {
            *lock(bucket) += 1;
        }
        self.shared.entries.invalidate_all();
    }

    /// Returns the epoch of the key's bucket, locked: steps under this lock are atomic against
    /// invalidations.
    fn epoch(&self, key: &Key) -> MutexGuard<'_, u64> {
        let hash = self.shared.hasher.hash_one(key) as usize;
        lock(&self.shared.epochs[hash % BUCKETS])
    }
}

fn lock(bucket: &Mutex<u64>) -> MutexGuard<'_, u64> {
    bucket.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets moka drop entries that can no longer be served.
struct WhenOver;

impl WhenOver {
    fn left(kept: &Kept) -> Option<Duration> {
        Some(kept.lifetime.saturating_sub(kept.issued.elapsed()))
    }
}

impl Expiry<Key, Kept> for WhenOver {
    fn expire_after_create(&self, _: &Key, kept: &Kept, _: StdInstant) -> Option<Duration> {
        Self::left(kept)
    }

    fn expire_after_update(
        &self,
        _: &Key,
        kept: &Kept,
        _: StdInstant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Self::left(kept)
    }
}

impl fmt::Debug for LocalCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCache")
            .field("max_bytes", &self.shared.max_bytes)
            .field("max_lifetime", &self.max_lifetime)
            .finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Cache for LocalCache {
    type Ticket = LocalTicket;

    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>> {
        let ticket = LocalTicket {
            epoch: *self.epoch(key),
            issued: Moment::now(),
        };
        let hit = self.shared.entries.get(key).and_then(Kept::hit);
        Ok(Lookup { hit, ticket })
    }

    async fn store(
        &self,
        key: &Key,
        ticket: &Self::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool> {
        let kept = Kept {
            entry,
            issued: ticket.issued,
            lifetime: lifetime.min(self.max_lifetime),
        };
        let epoch = self.epoch(key);
        let stored = *epoch == ticket.epoch && kept.issued.elapsed() < kept.lifetime;
        if stored {
            self.shared.entries.insert(key.clone(), kept);
        }
        Ok(stored)
    }

    async fn invalidate(&self, key: &Key) -> Result<()> {
        let mut epoch = self.epoch(key);
        *epoch += 1;
        self.shared.entries.invalidate(key);
        Ok(())
    }
}
