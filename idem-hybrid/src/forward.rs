//! A shared cache is a cache.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{Key, Result};

use crate::{Cache, Lookup};

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<C: Cache + ?Sized> Cache for Arc<C> {
    type Ticket = C::Ticket;

    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>> {
        (**self).read(key).await
    }

    async fn store(
        &self,
        key: &Key,
        ticket: &Self::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool> {
        (**self).store(key, ticket, entry, lifetime).await
    }

    async fn invalidate(&self, key: &Key) -> Result<()> {
        (**self).invalidate(key).await
    }
}
