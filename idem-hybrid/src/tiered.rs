//! [`Tiered`]: a near cache in front of a far one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use idem_core::{Key, Result};

use crate::guard::{Guard, NoAnswer, in_time};
use crate::metrics::Counters;
use crate::{Cache, CacheMetrics, Config, Hit, Lookup};

/// The header of a near entry: how old it was at the far tier when it came from there, in µs.
const AGE: usize = 8;

/// How long a store or an invalidation in the far tier may take: below the store's budget for the
/// background.
const SLOW_BUDGET: Duration = Duration::from_millis(500);

/// Two caches as one: a read goes to `near` first, then to `far`, and an entry that only `far` has
/// is kept in `near`.
///
/// The far tier has a breaker and a budget of its own, so that the near one goes on answering, and
/// being filled, while the far one is down. Its budget (default: 40 ms) should be below the
/// store's.
///
/// # To ensure correctness
///
/// * A far entry is kept near under a near ticket that was issued *before* the far tier was read,
///   for no longer than the far tier would have kept it.
/// * An invalidation reaches the near tier *after* the far one. If it came only before, the near
///   tier would keep an entry that is read from the far tier in between, under a ticket that is
///   still good.
///
/// The near tiers of two processes do not know of each other: an entry that another process
/// invalidates is served from this near tier until its lifetime there ends. Keep that short.
#[derive(Debug)]
pub struct Tiered<Near, Far> {
    near: Near,
    far: Arc<Far>,
    guard: Arc<Guard>,
    counters: Counters,
    far_budget: Duration,
}

/// The tickets of both tiers, as far as they were issued.
#[derive(Debug, Clone)]
pub struct TieredTicket<Near, Far> {
    near: Option<Near>,
    far: Option<Far>,
}

impl<Near: Cache, Far: Cache> Tiered<Near, Far> {
    /// Puts `near` in front of `far`.
    #[must_use]
    pub fn new(near: Near, far: Far) -> Self {
        Self {
            near,
            far: Arc::new(far),
            guard: Guard::new(&Config::new()),
            counters: Counters::default(),
            far_budget: Duration::from_millis(40),
        }
    }

    /// Sets how long a read may wait for the far tier; below the store's budget.
    #[must_use]
    pub fn with_far_budget(mut self, budget: Duration) -> Self {
        self.far_budget = budget;
        self
    }

    /// Returns the near tier.
    #[must_use]
    pub fn near(&self) -> &Near {
        &self.near
    }

    /// Returns the far tier.
    #[must_use]
    pub fn far(&self) -> &Far {
        &self.far
    }

    /// Returns the results of the far tier's calls, whose failures the store in front does not see.
    #[must_use]
    pub fn far_metrics(&self) -> CacheMetrics {
        self.counters.snapshot()
    }

    /// Reads the near tier; a failure counts as no answer.
    async fn read_near(&self, key: &Key) -> (Option<Hit>, Option<Near::Ticket>) {
        match self.near.read(key).await {
            Ok(Lookup { hit, ticket }) => (hit.and_then(unwrap), Some(ticket)),
            Err(_) => (None, None),
        }
    }

    async fn read_far(&self, key: &Key) -> Result<Lookup<Far::Ticket>, NoAnswer> {
        let read = self.guard.read(&self.far, key, self.far_budget);
        let answer = read.await;
        match &answer {
            Ok(lookup) if lookup.hit.is_some() => self.counters.hit(),
            Ok(_) => self.counters.miss(),
            Err(no_answer) => self.counters.no_answer(no_answer),
        }
        answer
    }

    async fn store_far(
        &self,
        key: &Key,
        ticket: &Far::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool> {
        let store = self.far.store(key, ticket, entry, lifetime);
        let answer = self.guard.call(SLOW_BUDGET, store).await;
        match &answer {
            Ok(true) => self.counters.promote(),
            Ok(false) => self.counters.refuse(),
            Err(no_answer) => self.counters.no_answer(no_answer),
        }
        match answer {
            Ok(stored) => Ok(stored),
            Err(NoAnswer::Skipped) => Ok(false),
            Err(NoAnswer::Failed(error)) => Err(error),
        }
    }

    /// Keeps a far entry near. A failure costs a read of the far tier, no more.
    async fn bring_near(&self, key: &Key, ticket: Option<&Near::Ticket>, hit: &Hit) {
        if let Some(ticket) = ticket {
            let entry = wrap(&hit.entry, hit.age);
            let _ = self.near.store(key, ticket, entry, hit.remaining).await;
        }
    }
}

/// Returns the entry with its age in front.
fn wrap(entry: &Bytes, age: Duration) -> Bytes {
    let mut bytes = BytesMut::with_capacity(AGE + entry.len());
    bytes.put_u64(u64::try_from(age.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX));
    bytes.put_slice(entry);
    bytes.freeze()
}

/// Returns the entry as it was stored, and its total age; `None` for one that was not wrapped.
fn unwrap(mut hit: Hit) -> Option<Hit> {
    let before = hit.entry.try_get_u64().ok()?;
    hit.age = hit.age.saturating_add(Duration::from_micros(before));
    Some(hit)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<Near: Cache, Far: Cache> Cache for Tiered<Near, Far> {
    type Ticket = TieredTicket<Near::Ticket, Far::Ticket>;

    /// Reads the near tier, and the far tier when the near one has nothing. A far tier that fails
    /// is a miss, and an error only if the near one fails too.
    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>> {
        let (hit, near) = self.read_near(key).await;
        if hit.is_some() {
            let ticket = TieredTicket { near, far: None };
            return Ok(Lookup { hit, ticket });
        }
        let (hit, far) = match self.read_far(key).await {
            Ok(Lookup { hit, ticket }) => (hit, Some(ticket)),
            Err(NoAnswer::Failed(error)) if near.is_none() => return Err(error),
            Err(NoAnswer::Failed(_) | NoAnswer::Skipped) => (None, None),
        };
        if let Some(hit) = &hit {
            self.bring_near(key, near.as_ref(), hit).await;
        }
        let ticket = TieredTicket { near, far };
        Ok(Lookup { hit, ticket })
    }

    /// Stores in each tier whose ticket there is; returns `true` when the far one stored it, or the
    /// near one where the far one was not used.
    async fn store(
        &self,
        key: &Key,
        ticket: &Self::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool> {
        let far = match &ticket.far {
            Some(far) => Some(self.store_far(key, far, entry.clone(), lifetime).await),
            None => None,
        };
        // A refusal there means that it was invalidated or forgotten there, so it is not stored
        // here either.
        if let Some(Ok(false)) = far {
            return Ok(false);
        }
        let near = match &ticket.near {
            Some(near) => {
                let entry = wrap(&entry, Duration::ZERO);
                self.near.store(key, near, entry, lifetime).await
            }
            None => Ok(false),
        };
        far.unwrap_or(near)
    }

    /// Invalidates the near tier before and after the far one: after, for the reason above; before,
    /// so that a far tier that hangs does not delay it.
    async fn invalidate(&self, key: &Key) -> Result<()> {
        let before = self.near.invalidate(key).await;
        let far = in_time(SLOW_BUDGET, self.far.invalidate(key)).await;
        let after = self.near.invalidate(key).await;
        before.and(far).and(after)
    }
}
