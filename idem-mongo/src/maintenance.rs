//! `delete_expired` and `fail_abandoned`: each reads a batch of ids through an index, then changes
//! the documents in statements of at most [`MAX_ITEMS`]. There the clock and the state of each
//! document decide again.

use idem_core::backend::{check, encode_failure};
use idem_core::{Effect, Error, Failure, Result};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use crate::error::Access;
use crate::operations::Operations;
use crate::session::Session;
use crate::statements;

/// Most documents that one statement changes: their ids, of at most 1,916 bytes, have to fit into a
/// command.
const MAX_ITEMS: u64 = 500;

/// The change to the documents that a filter finds.
#[derive(Debug, Clone)]
enum Change {
    Delete,
    Update(Vec<Document>),
}

impl Operations {
    pub(crate) async fn delete_expired(
        &self,
        session: &mut Session<'_>,
        limit: u32,
    ) -> Result<u64> {
        let limit = check::batch(limit)?;
        self.ready(session).await?;
        let (records, expired) = (&self.records.collection, statements::expired);
        self.in_rounds(session, records, limit, expired, &Change::Delete)
            .await
    }

    pub(crate) async fn fail_abandoned(
        &self,
        session: &mut Session<'_>,
        limit: u32,
    ) -> Result<u64> {
        let limit = check::batch(limit)?;
        let failure = encode_failure(&Failure::abandoned())?;
        let change = Change::Update(statements::fail_abandoned(&failure));
        self.ready(session).await?;
        let (records, abandoned) = (&self.records.collection, statements::abandoned);
        self.in_rounds(session, records, limit, abandoned, &change)
            .await
    }

    pub(crate) async fn delete_expired_watermarks(
        &self,
        session: &mut Session<'_>,
        limit: u32,
    ) -> Result<u64> {
        let limit = check::batch(limit)?;
        self.ready_for_watermarks(session).await?;
        let (marks, expired) = (&self.watermarks.collection, statements::expired_marks);
        self.in_rounds(session, marks, limit, expired, &Change::Delete)
            .await
    }

    /// Repeats rounds until the limit is reached or nothing more is found; documents that others
    /// have changed meanwhile do not count. A failure after the first round keeps what was done
    /// before.
    async fn in_rounds(
        &self,
        session: &mut Session<'_>,
        collection: &Collection<Document>,
        limit: u32,
        which: fn(i64) -> Document,
        change: &Change,
    ) -> Result<u64> {
        let limit = u64::from(limit);
        let mut done = 0;
        while done < limit {
            let round = (limit - done).min(MAX_ITEMS);
            let changed = self.round(session, collection, round, which, change).await;
            match changed {
                Ok(None) => break,
                Ok(Some(changed)) => done += changed,
                Err(error) if done > 0 => return Err(error.with_effect(Effect::Unknown)),
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Returns how many documents it changed; `None` when it found none.
    async fn round(
        &self,
        session: &mut Session<'_>,
        collection: &Collection<Document>,
        limit: u64,
        which: fn(i64) -> Document,
        change: &Change,
    ) -> Result<Option<u64>> {
        let filter = which(self.clock(session).await?);
        let pipeline = vec![
            doc! { "$match": filter.clone() },
            doc! { "$limit": i64::try_from(limit).unwrap_or(i64::MAX) },
            doc! { "$project": { "_id": 1 } },
        ];
        let found: Vec<Document> = session.read(collection, pipeline, Access::Read).await?;
        let ids: Vec<Bson> = found
            .into_iter()
            .filter_map(|mut found| found.remove("_id"))
            .collect();
        if ids.is_empty() {
            return Ok(None);
        }
        let filter = statements::among(&ids, filter);
        let change = change.clone();
        let statement = || {
            let (collection, filter, change) = (collection.clone(), filter.clone(), change.clone());
            async move {
                Ok(match change {
                    Change::Delete => collection.delete_many(filter).await?.deleted_count,
                    Change::Update(update) => {
                        collection.update_many(filter, update).await?.modified_count
                    }
                })
            }
        };
        session.again(statement).await.map(Some)
    }

    /// Returns a recent time of the server's clock, in microseconds.
    async fn clock(&self, session: &Session<'_>) -> Result<i64> {
        let database = self.database.clone();
        let hello = session
            .by_itself(Access::Read, async move {
                database.run_command(doc! { "hello": 1 }).await
            })
            .await?
            .map_err(|error| crate::error::classify(error, Access::Read))?;
        match hello.get_datetime("localTime") {
            Ok(now) => Ok(now.timestamp_millis().saturating_mul(1000)),
            Err(_) => Err(Error::corrupt("the server does not tell the time")),
        }
    }
}
