//! Lists and forced steps.

use std::time::Duration;

use async_trait::async_trait;

use super::row::{Row, State};
use super::shard::{GivenResult, Shard};
use super::sync::lock;
use super::{BACKEND, MemoryStore, later};
use crate::admin::{
    Cursor, Forced, ForcedAction, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
    SummaryState,
};
use crate::backend::stored_result::{failure_size, response_size};
use crate::backend::{ForcedSteps, check, force};
use crate::{
    Checkpoint, Claim, ClaimOutcome, ClaimRequest, IdempotencyStore, Key, RecordAdmin, Response,
    Result, Timestamp,
};

impl MemoryStore {
    /// Takes the rows of one shard after another, each shard's in the order of their keys. A page
    /// compares all keys of the shards that it comes to, under the shard's lock.
    fn list_now(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let limit = check::batch(limit)? as usize;
        let (mut number, mut last) = match after {
            None => (0, None),
            Some(cursor) => read(cursor)?,
        };
        let mut records = Vec::new();
        while let Some(shard) = self.shared.shards.get(number) {
            let shard = lock(shard);
            let now = self.shared.clock.now();
            let is_next = |row: &&Row| last.as_ref().is_none_or(|last| row.key > *last);
            let mut rows: Vec<&Row> = shard.rows().filter(is_next).collect();
            rows.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            let room = limit - records.len();
            let is_full = rows.len() > room;
            rows.truncate(room);
            last = rows.last().map(|row| row.key.clone()).or(last);
            records.extend(rows.into_iter().filter_map(|row| row.summary(now)));
            if is_full {
                break;
            }
            (number, last) = (number + 1, None);
        }
        let more = number < self.shared.shards.len();
        let next = more.then(|| Cursor::new(format!("{number} {}", path(last.as_ref()))));
        Ok(RecordPage::of(records, filter, next))
    }
}

fn path(last: Option<&Key>) -> String {
    last.map(Key::path).unwrap_or_default()
}

/// Reads the number of the shard, and the last key that was seen in it.
fn read(cursor: &Cursor) -> Result<(usize, Option<Key>)> {
    let parts = cursor.as_str().split_once(' ');
    let (number, path) = parts.ok_or_else(Cursor::unreadable)?;
    let number = number.parse().map_err(|_| Cursor::unreadable())?;
    let last = match path {
        "" => None,
        path => Some(Key::from_path(path).map_err(|_| Cursor::unreadable())?),
    };
    Ok((number, last))
}

impl Row {
    /// Returns the summary; `None` for a released row.
    pub(super) fn summary(&self, now: Timestamp) -> Option<RecordSummary> {
        let live = match &self.state {
            State::Released => return None,
            State::InFlight { lease_ends_at, .. } if *lease_ends_at <= now => SummaryState::Stale,
            State::InFlight { .. } => SummaryState::InFlight,
            State::Completed { .. } => SummaryState::Completed,
            State::Failed { .. } => SummaryState::Failed,
        };
        let state = match self.is_live(now) {
            true => live,
            false => SummaryState::Expired,
        };
        let mut summary = RecordSummary::new(self.key.clone(), state, self.token);
        summary.attempts = self.attempts;
        summary.created_at = self.created_at;
        summary.expires_at = self.expires_at;
        summary.observed_at = now;
        summary.metadata = self.metadata.clone();
        let bytes = match &self.state {
            State::InFlight {
                lease_ends_at,
                on_stale,
                checkpoint,
            } => {
                summary.lease_ends_at = Some(*lease_ends_at);
                summary.on_stale = *on_stale;
                let point = checkpoint.as_deref();
                summary.checkpoint = point.map(|point| point.name().to_owned());
                point.map_or(0, Checkpoint::size)
            }
            State::Completed {
                response,
                sealed_at,
            } => {
                summary.sealed_at = Some(*sealed_at);
                response_size(response).unwrap_or_default()
            }
            State::Failed { failure, sealed_at } => {
                summary.sealed_at = Some(*sealed_at);
                summary.failure_code = Some(failure.code().to_owned());
                failure_size(failure)
            }
            State::Released => 0,
        };
        summary.result_bytes = bytes as u64;
        Some(summary)
    }
}

/// A forced step on this store. Each of its steps is one operation.
struct Steps<'s>(&'s MemoryStore);

#[async_trait]
impl ForcedSteps for Steps<'_> {
    async fn held(&mut self, key: &Key) -> Result<Option<RecordSummary>> {
        let summary = |shard: &mut Shard, key, now| shard.row(key)?.summary(now);
        Ok(self.0.on_shard(key, summary))
    }

    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.0.claim_now(request)
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let result = GivenResult::Response(response);
        self.0.seal_now(claim, result, retention)
    }

    async fn take(&mut self, step: &ForcedStep, seen: SummaryState) -> Result<bool> {
        let failure = match step.action() {
            ForcedAction::Fail { failure, retention } => {
                Some((failure, check::retention(*retention)?))
            }
            ForcedAction::Release | ForcedAction::Delete => None,
        };
        Ok(self.0.on_shard(step.key(), |shard, key, now| {
            let failure = failure.map(|(failure, retention)| (failure, later(now, retention)));
            shard.force(key, step.token(), seen, failure, now)
        }))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl RecordAdmin for MemoryStore {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let page = self.list_now(filter, after, limit);
        page.map_err(|error| error.at(BACKEND, "list"))
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        Steps(self).held(key).await
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        let forced = force(&mut Steps(self), step, &self.limits()).await;
        forced.map_err(|error| error.at(BACKEND, "force"))
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        let checked = check::rewrite(rewrite, &self.shared.limits);
        checked.map_err(|error| error.at(BACKEND, "rewrite"))?;
        let rewritten = |shard: &mut Shard, key, now| shard.rewrite(key, rewrite, now);
        Ok(self.on_shard(rewrite.key(), rewritten))
    }
}
