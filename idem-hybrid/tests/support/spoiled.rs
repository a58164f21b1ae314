//! A cache whose every other hit is wrong.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idem_core::{Bytes, Key, Result, async_trait};
use idem_hybrid::{Cache, Lookup};

/// What replaces a hit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Spoil {
    /// Random bytes, or an entry with one wrong bit.
    Garbage,
    /// An entry of another key, once one has been seen.
    Mixed,
}

/// In front of a working cache.
pub(super) struct Spoiled<C> {
    inner: C,
    spoil: Spoil,
    seen: Mutex<VecDeque<(Key, Bytes)>>,
}

/// How many entries are remembered for mixing up.
const SEEN: usize = 32;

/// Without the entries, which hold keys and payloads.
impl<C: fmt::Debug> fmt::Debug for Spoiled<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spoiled")
            .field("inner", &self.inner)
            .field("spoil", &self.spoil)
            .finish_non_exhaustive()
    }
}

impl<C> Spoiled<C> {
    pub(super) fn new(inner: C, spoil: Spoil) -> Self {
        Self {
            inner,
            spoil,
            seen: Mutex::default(),
        }
    }

    fn remember(&self, key: &Key, entry: &Bytes) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push_back((key.clone(), entry.clone()));
        if seen.len() > SEEN {
            seen.pop_front();
        }
    }

    fn spoiled(&self, key: &Key, entry: Bytes) -> Bytes {
        match self.spoil {
            Spoil::Garbage if rand::random() => (0..entry.len()).map(|_| rand::random()).collect(),
            Spoil::Garbage => {
                let mut bytes = entry.to_vec();
                let at = rand::random_range(0..bytes.len());
                bytes[at] ^= 1 << rand::random_range(0..8);
                bytes.into()
            }
            Spoil::Mixed => {
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let other = seen.iter().find(|(other, _)| other != key);
                other.map_or(entry, |(_, other)| other.clone())
            }
        }
    }
}

#[async_trait]
impl<C: Cache> Cache for Spoiled<C> {
    type Ticket = C::Ticket;

    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>> {
        let mut lookup = self.inner.read(key).await?;
        if let Some(hit) = &mut lookup.hit {
            self.remember(key, &hit.entry);
            if rand::random() {
                hit.entry = self.spoiled(key, hit.entry.clone());
            }
        }
        Ok(lookup)
    }

    async fn store(
        &self,
        key: &Key,
        ticket: &Self::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool> {
        self.remember(key, &entry);
        self.inner.store(key, ticket, entry, lifetime).await
    }

    async fn invalidate(&self, key: &Key) -> Result<()> {
        self.inner.invalidate(key).await
    }
}
