//! [`Front`]: the cache as the store uses it: guarded, counted, and with records instead of bytes.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use idem_core::{Completed, Key, Result};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::guard::{Guard, in_time};
use crate::metrics::Counters;
use crate::{Cache, Config, entry};

/// How many claims may run beside a read of the cache, and go on after its answer.
const MAX_BATCH_SIZE: usize = 1024;

/// The result of a cache lookup.
#[derive(Debug)]
pub(crate) enum CacheAnswer<T> {
    /// A live record.
    Hit(Box<Completed>),
    /// Nothing that answers.
    Miss(Miss<T>),
}

/// The state after a lookup that found nothing.
#[derive(Debug)]
pub(crate) struct Miss<T> {
    /// The ticket to store the database's answer under; none when the cache did not answer.
    pub(crate) ticket: Option<T>,
    /// Whether the cache keeps something under this key that is not its entry.
    pub(crate) is_garbage: bool,
}

#[derive(Debug)]
pub(crate) struct Front<C> {
    pub(crate) cache: Arc<C>,
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    guard: Arc<Guard>,
    slots: Arc<Semaphore>,
    pub(crate) together: Arc<Semaphore>,
}

impl<C: Cache> Front<C> {
    pub(crate) fn new(cache: C, config: Config) -> Self {
        Self {
            cache: Arc::new(cache),
            guard: Guard::new(&config),
            slots: Arc::new(Semaphore::new(config.max_background as usize)),
            together: Arc::new(Semaphore::new(MAX_BATCH_SIZE)),
            config,
            counters: Counters::default(),
        }
    }

    /// Reads the key's record, within the budget of a waiting caller.
    pub(crate) async fn ask(&self, key: &Key) -> CacheAnswer<C::Ticket> {
        let read = self.guard.read(&self.cache, key, self.config.budget);
        let lookup = match read.await {
            Ok(lookup) => lookup,
            Err(no_answer) => {
                self.counters.no_answer(&no_answer);
                return CacheAnswer::Miss(Miss {
                    ticket: None,
                    is_garbage: false,
                });
            }
        };
        let mut is_garbage = false;
        match lookup.hit.map(|hit| entry::decode(hit.entry, key, hit.age)) {
            Some(Ok(record)) if !record.info.remaining().is_zero() => {
                self.counters.hit();
                return CacheAnswer::Hit(Box::new(record));
            }
            Some(Err(_)) => {
                is_garbage = true;
                self.counters.error();
            }
            Some(Ok(_)) | None => self.counters.miss(),
        }
        CacheAnswer::Miss(Miss {
            ticket: Some(lookup.ticket),
            is_garbage,
        })
    }

    /// Removes the entry, for a waiting caller; a failure is counted.
    pub(crate) async fn forget(&self, key: &Key) {
        let invalidated = self.cache.invalidate(key);
        if let Err(no_answer) = self.guard.call(self.config.budget, invalidated).await {
            self.counters.no_answer(&no_answer);
        }
    }

    /// Removes the entry, breaker or not; returns whether the cache has done so.
    pub(crate) async fn invalidate(&self, key: &Key) -> Result<()> {
        let invalidated = self.cache.invalidate(key);
        let returned = in_time(self.config.background_budget, invalidated).await;
        returned.inspect_err(|_| self.counters.error())
    }

    /// Returns a ticket, for work in the background.
    pub(crate) async fn ticket(&self, key: &Key) -> Option<C::Ticket> {
        let read = self.cache.read(key);
        match self.guard.call(self.config.background_budget, read).await {
            Ok(lookup) => Some(lookup.ticket),
            Err(no_answer) => {
                self.counters.no_answer(&no_answer);
                None
            }
        }
    }

    /// Stores the record under a ticket that is older than the read of the database that found it.
    pub(crate) async fn promote(&self, key: &Key, ticket: &C::Ticket, record: &Completed) {
        let lifetime = self.lifetime(record.info.remaining());
        let Ok(entry) = entry::encode(key, record) else {
            return self.counters.error();
        };
        if lifetime.is_zero() || entry.len() > self.config.max_entry_bytes {
            return self.counters.skip();
        }
        let store = self.cache.store(key, ticket, entry, lifetime);
        match self.guard.call(self.config.background_budget, store).await {
            Ok(true) => self.counters.promote(),
            Ok(false) => self.counters.refuse(),
            Err(no_answer) => self.counters.no_answer(&no_answer),
        }
    }

    /// Returns a thousandth less than the database's remaining time: two disciplined clocks do not
    /// drift apart faster than that.
    fn lifetime(&self, remaining: Duration) -> Duration {
        let cautious = remaining.saturating_sub(remaining / 1000);
        cautious.min(self.config.max_lifetime)
    }

    /// Runs the work beside the callers, if there is a slot for it.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        match (slot, Handle::try_current()) {
            (Ok(slot), Ok(runtime)) => {
                runtime.spawn(async move {
                    work.await;
                    drop(slot);
                });
            }
            _ => self.counters.skip(),
        }
    }

    /// Waits until none of the background work that was under way still runs.
    pub(crate) async fn settled(&self) {
        let all = self.config.max_background;
        // The semaphore is never closed.
        let _ = self.slots.acquire_many(all).await;
    }
}
