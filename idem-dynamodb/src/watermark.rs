//! Watermarks: the latest version of each source, in items of their own.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{Advance, Error, Key, Result, WatermarkStore};

use crate::error::{Access, changed_too_often};
use crate::operations::{Changed, Operations};
use crate::row::Row;
use crate::session::{MAX_RETRIES, Session, pause};
use crate::statements::{self, Writer, attribute, mark_key};
use crate::store::{DynamoStore, at};

impl Operations {
    async fn advance(
        &self,
        session: &Session,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let version = check::version(version)?;
        let retention = check::retention(retention)?;
        // Of this call alone, so that it recognizes what it has written when an answer was lost.
        let writer = Writer::random();
        for tries in 1..=MAX_RETRIES {
            let now = self.now(session).await?.micros;
            let update = statements::advance(source, version, &writer, retention, now);
            let Changed::Refused(row) = self.update(session, &update).await? else {
                return Ok(Advance::Advanced);
            };
            if let Some(row) = row {
                return met(&row, version, &writer);
            }
            pause(tries).await;
        }
        Err(changed_too_often(MAX_RETRIES))
    }

    async fn watermark(&self, session: &Session, source: &Key) -> Result<Option<u64>> {
        let row = self
            .read_item(session, mark_key(source), Access::Read)
            .await?;
        let now = self.now(session).await?.micros;
        match row {
            Some(row) if row.is_live(now)? => unsigned(row.number(attribute::VERSION)?).map(Some),
            _ => Ok(None),
        }
    }
}

/// Returns the answer of the mark that has refused an advance.
pub(crate) fn met(row: &Row, version: i64, writer: &Writer) -> Result<Advance> {
    let current = row.number(attribute::VERSION)?;
    Ok(match current == version {
        true if row.is_written_by(writer) => Advance::Advanced,
        true => Advance::Unchanged,
        false => Advance::Stale {
            current: unsigned(current)?,
        },
    })
}

fn unsigned(version: i64) -> Result<u64> {
    u64::try_from(version).map_err(|_| Error::corrupt("a watermark is below zero"))
}

/// A mark is an item, raised in one conditional write; the item that refuses a write answers stale
/// and repeated versions.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl WatermarkStore for DynamoStore {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        let session = self.operations.session();
        let advanced = self
            .operations
            .advance(&session, source, version, retention);
        advanced.await.map_err(at("advance"))
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        let session = self.operations.session();
        let mark = self.operations.watermark(&session, source);
        mark.await.map_err(at("watermark"))
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        let session = self.operations.session();
        let deleted = self.operations.delete_expired_watermarks(&session, limit);
        deleted.await.map_err(at("delete_expired_watermarks"))
    }
}
