//! `delete_expired` and `fail_abandoned`: each reads the table page by page, and changes the items
//! that a filter finds in writes of their own, whose conditions decide again.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::scan::ScanOutput;
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::{StreamExt, stream};
use idem_core::backend::{StoredRecord, check, encode_failure};
use idem_core::{Effect, Error, Failure, Result};

use crate::error::Access;
use crate::operations::{Changed, Operations};
use crate::row::{Item, Row};
use crate::session::Session;
use crate::statements::{self, MARK, RECORD, TOKEN_MARGIN, Writer, attribute, number};

/// How many items are changed at once.
const AT_ONCE: usize = 16;

/// A filter or a condition with its names and values.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    expression: &'static str,
    values: HashMap<String, AttributeValue>,
}

impl Filter {
    /// Creates a filter of the items whose partition key begins so.
    fn new(expression: &'static str, prefix: &str) -> Self {
        let prefix = AttributeValue::S(prefix.to_owned());
        Self {
            expression,
            values: HashMap::from([(":prefix".to_owned(), prefix)]),
        }
    }

    fn with(mut self, name: &str, instant: i64) -> Self {
        self.values.insert(name.to_owned(), number(instant));
        self
    }

    fn names(&self) -> HashMap<String, String> {
        statements::names(self.expression)
    }
}

/// The change to an item that a filter has found.
enum Change {
    Delete,
    Fail(Vec<u8>),
}

impl Operations {
    pub(crate) async fn delete_expired(&self, session: &Session, limit: u32) -> Result<u64> {
        let limit = check::batch(limit)?;
        let now = self.now(session).await?.earliest;
        let filter = Filter::new(statements::IS_EXPIRED, RECORD)
            .with(":now", now)
            .with(":old", now.saturating_sub(TOKEN_MARGIN));
        self.sweep(session, limit, &filter, &Change::Delete).await
    }

    pub(crate) async fn delete_expired_watermarks(
        &self,
        session: &Session,
        limit: u32,
    ) -> Result<u64> {
        let limit = check::batch(limit)?;
        let now = self.now(session).await?.earliest;
        let filter = Filter::new(statements::IS_EXPIRED_MARK, MARK).with(":now", now);
        self.sweep(session, limit, &filter, &Change::Delete).await
    }

    pub(crate) async fn fail_abandoned(&self, session: &Session, limit: u32) -> Result<u64> {
        let limit = check::batch(limit)?;
        let failure = encode_failure(&Failure::abandoned())?.to_vec();
        let now = self.now(session).await?.micros;
        let filter = Filter::new(statements::IS_ABANDONED, RECORD)
            .with(":now", now)
            .with(":in_flight", StoredRecord::IN_FLIGHT);
        let change = Change::Fail(failure);
        self.sweep(session, limit, &filter, &change).await
    }

    /// Goes through the table until the limit is reached; items that others have changed meanwhile
    /// do not count. Each page and each change has its own time limit. A failure after the first
    /// change has an unknown effect.
    async fn sweep(
        &self,
        session: &Session,
        limit: u32,
        filter: &Filter,
        change: &Change,
    ) -> Result<u64> {
        let (limit, mut done, mut start) = (u64::from(limit), 0, None);
        let mut session = *session;
        loop {
            let page = self.scan(&session, start, Some(filter), None).await;
            let page = page.map_err(|error| after(error, done))?;
            start = page.last_evaluated_key;
            let mut rows = page.items.unwrap_or_default().into_iter().map(Row::new);
            while done < limit {
                let room = usize::try_from(limit - done)
                    .unwrap_or(AT_ONCE)
                    .min(AT_ONCE);
                let round: Vec<_> = rows.by_ref().take(room).collect();
                if round.is_empty() {
                    break;
                }
                let changes = round.iter().map(|row| self.change(row, filter, change));
                let changes: Vec<_> = changes.collect();
                let mut changed = stream::iter(changes).buffer_unordered(AT_ONCE);
                let mut failed = None;
                while let Some(changed) = changed.next().await {
                    match changed {
                        Ok(changed) => done += u64::from(changed),
                        Err(error) => failed = Some(error),
                    }
                }
                if let Some(error) = failed {
                    return Err(after(error, done));
                }
            }
            if done >= limit || start.is_none() {
                return Ok(done);
            }
            session = self.session();
        }
    }

    /// Reads a page of the table, of at most 1 MiB, as of now.
    pub(crate) async fn scan(
        &self,
        session: &Session,
        start: Option<Item>,
        filter: Option<&Filter>,
        limit: Option<i32>,
    ) -> Result<ScanOutput> {
        let mut request = self
            .client
            .scan()
            .table_name(self.config.table())
            .consistent_read(true)
            .set_exclusive_start_key(start)
            .set_limit(limit);
        if let Some(filter) = filter {
            request = request
                .filter_expression(filter.expression)
                .set_expression_attribute_names(Some(filter.names()))
                .set_expression_attribute_values(Some(filter.values.clone()));
        }
        let page = session
            .send(&self.clock, Access::Read, |watch| {
                request.customize().interceptor(watch).send()
            })
            .await?;
        page.map_err(|failed| failed.classify(Access::Read))
    }

    /// Changes an item if the filter still finds it; returns whether it has.
    async fn change(&self, row: &Row, filter: &Filter, change: &Change) -> Result<bool> {
        let session = &self.session();
        let Some(partition) = row.partition() else {
            return Ok(false);
        };
        match change {
            Change::Delete => self.delete(session, partition, filter).await,
            Change::Fail(failure) => {
                let now = self.now(session).await?.micros;
                // The comparison with the record that was seen implies the filter.
                let writer = Writer::random();
                let update = statements::abandon(partition.to_owned(), row, failure, &writer, now)?;
                Ok(match self.update(session, &update).await? {
                    Changed::Done => true,
                    Changed::Refused(Some(met)) => met.is_written_by(&writer),
                    Changed::Refused(None) => false,
                })
            }
        }
    }

    async fn delete(&self, session: &Session, partition: &str, filter: &Filter) -> Result<bool> {
        let request = self
            .client
            .delete_item()
            .table_name(self.config.table())
            .key(attribute::KEY, AttributeValue::S(partition.to_owned()))
            .condition_expression(filter.expression)
            .set_expression_attribute_names(Some(filter.names()))
            .set_expression_attribute_values(Some(filter.values.clone()));
        let deleted = session
            .send(&self.clock, Access::Write, |watch| {
                request.customize().interceptor(watch).send()
            })
            .await?;
        match deleted {
            Ok(_) => Ok(true),
            Err(failed) => match failed.service_error() {
                // Somebody has claimed the key meanwhile, or has deleted the item.
                Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(false),
                _ => Err(failed.classify(Access::Write)),
            },
        }
    }
}

fn after(error: Error, done: u64) -> Error {
    match done {
        0 => error,
        _ => error.with_effect(Effect::Unknown),
    }
}
