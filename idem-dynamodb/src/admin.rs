//! Lists and forced steps.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use idem_core::admin::{
    Cursor, Forced, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite, SummaryState,
};
use idem_core::backend::{FinalResult, ForcedSteps, check, force};
use idem_core::{Claim, ClaimOutcome, ClaimRequest, Key, RecordAdmin, Response, Result};

use crate::operations::{Changed, Operations};
use crate::row::{Item, Row};
use crate::session::Session;
use crate::statements::{self, RECORD, Writer, attribute};
use crate::store::{DynamoStore, at};

/// What a cursor begins with, before the partition key of the last item of its page. The item may
/// be anybody's.
const CURSOR: &str = "pk>";

impl Operations {
    /// Looks at the next `limit` items of the table, watermarks among them.
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let limit = check::batch(limit)?;
        let mut start = after.map(position).transpose()?;
        let (mut records, mut left) = (Vec::new(), limit);
        while left > 0 {
            let session = self.session();
            let page = self
                .scan(
                    &session,
                    start,
                    None,
                    Some(i32::try_from(left).unwrap_or(i32::MAX)),
                )
                .await?;
            let now = self.now(&session).await?.micros;
            left -= u32::try_from(page.scanned_count).unwrap_or(left).min(left);
            start = page.last_evaluated_key;
            let rows = page.items.unwrap_or_default().into_iter().map(Row::new);
            records.extend(rows.filter_map(|mut row| {
                let key = row.partition().and_then(key_of)?;
                let bytes = row.shorten();
                row.summary(key, bytes, now)
            }));
            if start.is_none() {
                break;
            }
        }
        let next = start.and_then(|last| {
            let last = Row::new(last);
            let partition = last.partition()?;
            Some(Cursor::new([CURSOR, partition].concat()))
        });
        Ok(RecordPage::of(records, filter, next))
    }

    async fn summary(&self, session: &Session, key: &Key) -> Result<Option<RecordSummary>> {
        let row = self.read(session, key).await?;
        let now = self.now(session).await?.micros;
        Ok(row.and_then(|mut row| {
            let bytes = row.shorten();
            row.summary(key.clone(), bytes, now)
        }))
    }

    async fn take(&self, session: &Session, step: &ForcedStep, seen: SummaryState) -> Result<bool> {
        let Some(seen) = seen.stored() else {
            return Ok(false);
        };
        let result = FinalResult::forced(step.action(), &self.config.limits())?;
        let now = self.now(session).await?.micros;
        let (seen, writer) = ((step.key(), step.token(), seen), Writer::random());
        let update = statements::force(seen, &result, &writer, now);
        Ok(match self.update(session, &update).await? {
            Changed::Done => true,
            Changed::Refused(met) => met.is_some_and(|met| met.is_written_by(&writer)),
        })
    }

    async fn rewrite(&self, session: &Session, rewrite: &Rewrite) -> Result<bool> {
        let checked = check::rewrite(rewrite, &self.config.limits())?;
        let now = self.now(session).await?.micros;
        let seen = (rewrite.key(), rewrite.token(), rewrite.state());
        let metadata = checked.metadata.as_deref();
        let update = statements::rewrite(seen, &checked.result, metadata, now);
        Ok(matches!(
            self.update(session, &update).await?,
            Changed::Done
        ))
    }
}

/// Returns the key of a record's item; `None` for another item.
fn key_of(partition: &str) -> Option<Key> {
    let path = partition.strip_prefix(RECORD)?;
    Key::from_path(path).ok().filter(|key| key.path() == path)
}

/// Returns where a list goes on.
fn position(cursor: &Cursor) -> Result<Item> {
    let partition = cursor.as_str().strip_prefix(CURSOR);
    let partition = partition.filter(|partition| !partition.is_empty());
    let partition = partition.ok_or_else(Cursor::unreadable)?;
    let partition = AttributeValue::S(partition.to_owned());
    Ok([(attribute::KEY.to_owned(), partition)].into())
}

/// A forced step of this store.
struct Steps<'s>(&'s Operations);

#[async_trait]
impl ForcedSteps for Steps<'_> {
    async fn held(&mut self, key: &Key) -> Result<Option<RecordSummary>> {
        self.0.summary(&self.0.session(), key).await
    }

    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.0.claim(&self.0.session(), request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let limits = self.0.config.limits();
        let result = FinalResult::completed(response, retention, &limits)?;
        self.0.finish(&self.0.session(), claim, &result).await
    }

    async fn take(&mut self, step: &ForcedStep, seen: SummaryState) -> Result<bool> {
        self.0.take(&self.0.session(), step, seen).await
    }
}

/// A list is a `Scan`, in no order, that reads whole items: it costs the read capacity of everything
/// that it looks at. A forced step writes its audit entry first.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl RecordAdmin for DynamoStore {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let page = self.operations.list(filter, after, limit);
        page.await.map_err(at("list"))
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        let session = self.operations.session();
        let summary = self.operations.summary(&session, key);
        summary.await.map_err(at("summary"))
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        let operations = &*self.operations;
        let forced = force(&mut Steps(operations), step, &operations.config.limits()).await;
        forced.map_err(at("force"))
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        let session = self.operations.session();
        let rewritten = self.operations.rewrite(&session, rewrite);
        rewritten.await.map_err(at("rewrite"))
    }
}
