//! Lists and forced steps.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::admin::{
    Cursor, Forced, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite, SummaryState,
};
use idem_core::backend::{FinalResult, ForcedSteps, check, force};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Key, RecordAdmin, Response, Result,
};
use mongodb::ClientSession;

use crate::error::Access;
use crate::operations::Operations;
use crate::row::Row;
use crate::session::{Change, Form, Session};
use crate::statements;
use crate::store::{MongoStore, at};
use crate::tx::Transactions;

/// The largest failure or checkpoint that a list reads; it reads the whole, and keeps the first
/// [`LISTED_RESULT_BYTES`](idem_core::backend::LISTED_RESULT_BYTES).
const MAX_BODY_BYTES: i64 = 64 << 10;

/// What a cursor begins with, before the `_id` of the last document of its page.
const CURSOR: &str = "_id>";

impl Operations {
    async fn list(
        &self,
        session: &Session<'_>,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let limit = check::batch(limit)?;
        let after = match after {
            None => "",
            Some(cursor) => {
                let id = cursor.as_str().strip_prefix(CURSOR);
                id.ok_or_else(Cursor::unreadable)?
            }
        };
        self.ready(session).await?;
        let pipeline = statements::list(statements::after(after), limit, MAX_BODY_BYTES);
        let records = &self.records.collection;
        let rows = session.read_each(records, pipeline, Row::listed).await?;
        let is_full = rows.len() >= limit as usize;
        let last = rows.last().filter(|_| is_full).and_then(Row::id);
        let next = last.map(|id| Cursor::new([CURSOR, id].concat()));
        let summaries = rows.into_iter().filter_map(|row| {
            let key = row.id().and_then(key_of)?;
            row.summary(key)
        });
        Ok(RecordPage::of(summaries.collect(), filter, next))
    }

    /// Reads the record, expired or not. Of a single record, a failure or checkpoint of any size is
    /// read.
    async fn summary(&self, session: &mut Session<'_>, key: &Key) -> Result<Option<RecordSummary>> {
        self.ready(session).await?;
        let pipeline = statements::list(statements::key_filter(key), 1, i64::MAX);
        let found = self.one(session, pipeline, Access::Read).await?;
        Ok(found.and_then(|row| row.summary(key.clone())))
    }

    async fn take(
        &self,
        session: &mut Session<'_>,
        step: &ForcedStep,
        seen: SummaryState,
    ) -> Result<bool> {
        let Some(seen) = seen.stored() else {
            return Ok(false);
        };
        let result = FinalResult::forced(step.action(), &self.config.limits())?;
        let change = Change {
            filter: statements::seen_filter(step.key(), step.token(), seen),
            update: statements::force(&result),
            form: Form::Return,
        };
        let taken = self.update_one(session, step.key(), change);
        Ok(taken.await?.is_some())
    }

    async fn rewrite(&self, session: &mut Session<'_>, rewrite: &Rewrite) -> Result<bool> {
        let checked = check::rewrite(rewrite, &self.config.limits())?;
        self.ready(session).await?;
        let change = Change {
            filter: statements::seen_filter(rewrite.key(), rewrite.token(), rewrite.state()),
            update: statements::rewrite(&checked.result, checked.metadata.as_deref()),
            form: Form::Return,
        };
        let rewritten = self.update_one(session, rewrite.key(), change);
        Ok(rewritten.await?.is_some())
    }
}

/// Returns the key of a document with this `_id`; `None` for one that is not of this crate, such as
/// that of the schema's version.
fn key_of(id: &str) -> Option<Key> {
    Key::from_path(id).ok().filter(|key| key.path() == id)
}

/// A forced step, in a transaction of the store's own if there is one.
struct Steps<'s> {
    operations: &'s Operations,
    transaction: Option<&'s mut ClientSession>,
}

impl Steps<'_> {
    fn session(&mut self) -> Session<'_> {
        let config = &self.operations.config;
        match &mut self.transaction {
            Some(transaction) => Session::in_transaction(transaction, config),
            None => Session::alone(config),
        }
    }
}

#[async_trait]
impl ForcedSteps for Steps<'_> {
    async fn held(&mut self, key: &Key) -> Result<Option<RecordSummary>> {
        let operations = self.operations;
        operations.summary(&mut self.session(), key).await
    }

    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let operations = self.operations;
        operations.claim(&mut self.session(), request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let operations = self.operations;
        let limits = operations.config.limits();
        let result = FinalResult::completed(response, retention, &limits)?;
        operations.finish(&mut self.session(), claim, &result).await
    }

    async fn take(&mut self, step: &ForcedStep, seen: SummaryState) -> Result<bool> {
        let operations = self.operations;
        operations.take(&mut self.session(), step, seen).await
    }
}

impl MongoStore {
    async fn force_once(&self, step: &ForcedStep) -> Result<Forced> {
        let operations = &*self.operations;
        let config = &operations.config;
        operations.ready(&self.session()).await?;
        if !self.has_transactions().await? {
            let mut steps = Steps {
                operations,
                transaction: None,
            };
            return force(&mut steps, step, &config.limits()).await;
        }
        let transactions = Transactions::new(self).with_limit(config.timeout());
        let mut attempts = transactions.attempts();
        loop {
            let mut session = attempts.begin().await?;
            let mut steps = Steps {
                operations,
                transaction: Some(&mut session),
            };
            let forced = force(&mut steps, step, &config.limits()).await;
            // Nothing of a transaction that is aborted stays.
            let forced = forced.map_err(|error| error.with_effect(Effect::None));
            if let Some(forced) = attempts.finish(session, forced).await {
                return forced.map_err(|error| match error.downcast::<Error>() {
                    Ok(error) => *error,
                    Err(error) => unexpected(error.to_string()),
                });
            }
        }
    }
}

/// Returns an error of a transaction that is not one of this crate's; there is none.
fn unexpected(message: String) -> Error {
    Error::new(ErrorKind::Other, Effect::Unknown, message)
}

/// A list follows the index of the `_id`, in the order of [`Key::path`]. The server cannot return a
/// part of a failure or checkpoint. A list reads those of at most 64 KiB as a whole, and none that
/// are larger: it then has no `failure_code` and no `checkpoint`, and the summary of the one record
/// has them.
///
/// Where the deployment has transactions, a forced step and its audit entry are one, which is
/// repeated as a whole while it loses races, for [`Config::with_timeout`] at most.
///
/// [`Config::with_timeout`]: crate::Config::with_timeout
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl RecordAdmin for MongoStore {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let session = self.session();
        let page = self.operations.list(&session, filter, after, limit);
        page.await.map_err(at("list"))
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        let summary = self.operations.summary(&mut self.session(), key).await;
        summary.map_err(at("summary"))
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        self.force_once(step).await.map_err(at("force"))
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        let rewritten = self.operations.rewrite(&mut self.session(), rewrite).await;
        rewritten.map_err(at("rewrite"))
    }
}
