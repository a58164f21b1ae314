//! Redis as a tier: [`RedisCache`] keeps the contract by itself.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{Key, Result};
use idem_redis::{CacheTicket, RedisCache};

use crate::{Cache, Hit, Lookup};

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Cache for RedisCache {
    type Ticket = CacheTicket;

    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>> {
        let read = RedisCache::read(self, key).await?;
        let hit = read.hit.map(|hit| Hit {
            entry: hit.entry,
            age: hit.age,
            remaining: hit.remaining,
        });
        let ticket = read.ticket;
        Ok(Lookup { hit, ticket })
    }

    async fn store(
        &self,
        key: &Key,
        ticket: &Self::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool> {
        RedisCache::store(self, key, ticket, &entry, lifetime).await
    }

    async fn invalidate(&self, key: &Key) -> Result<()> {
        RedisCache::invalidate(self, key).await
    }
}
