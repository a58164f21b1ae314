//! A cache that does not always hear of an invalidation, and nobody minds.

use std::time::Duration;

use idem_core::{Bytes, Key, Result, async_trait};
use idem_hybrid::{Cache, Lookup};

/// Shorter than the store waits.
const BUDGET: Duration = Duration::from_millis(300);

/// In front of a cache that is down, slow, or killed again and again. A forced deletion is an error
/// there until the cache hears of it, as the tests of the behaviour show. The suite forces each step
/// once, so here it is as if somebody had flushed the cache.
///
/// Nothing is stale for it: the first two serve nothing, and the third has lost its memory when it
/// comes back.
#[derive(Debug)]
pub(super) struct Unheard<C>(pub(super) C);

#[async_trait]
impl<C: Cache> Cache for Unheard<C> {
    type Ticket = C::Ticket;

    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>> {
        self.0.read(key).await
    }

    async fn store(
        &self,
        key: &Key,
        ticket: &Self::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool> {
        self.0.store(key, ticket, entry, lifetime).await
    }

    async fn invalidate(&self, key: &Key) -> Result<()> {
        let _ = tokio::time::timeout(BUDGET, self.0.invalidate(key)).await;
        Ok(())
    }
}
