//! Lists and forced steps of a mutant.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::admin::{
    Cursor, Forced, ForcedAction, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
    SummaryState,
};
use idem_core::backend::{
    ForcedSteps, StoredResult, check, encode_failure, encode_response, force,
    whole_millis_as_micros,
};
use idem_core::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Error, FencingToken, IdempotencyStore, Key,
    RecordAdmin, Response, Result, Timestamp,
};

use super::row::{Row, State};
use super::{Bug, MutantStore};

impl Row {
    fn summary(&self, now: i64, bug: Bug) -> Option<RecordSummary> {
        let at = Timestamp::from_micros;
        let live = match &self.state {
            State::Released => return None,
            State::InFlight if self.lease_ends_at <= now => SummaryState::Stale,
            State::InFlight => SummaryState::InFlight,
            State::Completed(..) => SummaryState::Completed,
            State::Failed(..) => SummaryState::Failed,
        };
        let is_expired = self.expires_at <= now && bug != Bug::ListShowsExpired;
        let state = if is_expired {
            SummaryState::Expired
        } else {
            live
        };
        let token = FencingToken::from_i64(self.token);
        let mut summary = RecordSummary::new(self.request.key().clone(), state, token);
        summary.attempts = self.attempts;
        summary.created_at = at(self.created_at);
        summary.expires_at = at(self.expires_at);
        summary.observed_at = at(now);
        summary.metadata = self.request.metadata().clone();
        let bytes = match &self.state {
            State::InFlight => {
                summary.lease_ends_at = Some(at(self.lease_ends_at));
                summary.on_stale = self.request.on_stale();
                let point = self.checkpoint.as_ref();
                summary.checkpoint = point.map(|point| point.name().to_owned());
                point.map_or(0, |point| 2 + point.name().len() + point.data().len())
            }
            State::Completed(response, sealed_at) => {
                summary.sealed_at = Some(at(*sealed_at));
                encode_response(response).map_or(0, |bytes| bytes.len())
            }
            State::Failed(failure, sealed_at) => {
                summary.sealed_at = Some(at(*sealed_at));
                summary.failure_code = Some(failure.code().to_owned());
                encode_failure(failure).map_or(0, |bytes| bytes.len())
            }
            State::Released => 0,
        };
        summary.result_bytes = bytes as u64;
        Some(summary)
    }
}

impl MutantStore {
    fn summary_now(&self, key: &Key) -> Option<RecordSummary> {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let row = shared.rows.get(&self.key(key))?;
        row.summary(now, self.bug)
    }

    fn list_now(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let limit = check::batch(limit)? as usize;
        let read = |cursor: &Cursor| Key::from_path(cursor.as_str());
        let after = after.map(read).transpose();
        let after = after.map_err(|_| Cursor::unreadable())?;
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let from = after.map(|key| self.key(&key));
        let rows = shared.rows.iter();
        let rows = rows.filter(|(key, _)| from.as_ref().is_none_or(|from| *key > from));
        let page: Vec<_> = rows.map(|(_, row)| row).take(limit).collect();
        let last = page.last().filter(|_| page.len() == limit);
        let next = last.map(|row| Cursor::new(row.request.key().path()));
        let mut records: Vec<_> = page
            .iter()
            .filter_map(|row| row.summary(now, self.bug))
            .collect();
        if self.bug == Bug::ListSkips && next.is_some() && records.len() > 1 {
            records.pop();
        }
        Ok(RecordPage::of(records, filter, next))
    }

    /// Fails or releases the record, if it is as wanted.
    fn take(&self, step: &ForcedStep, is_wanted: impl Fn(&RecordSummary) -> bool) -> bool {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let row = shared.rows.get_mut(&self.key(step.key()));
        let is_wanted = |row: &&mut Row| {
            let summary = row.summary(now, Bug::None);
            summary.is_some_and(|summary| is_wanted(&summary))
        };
        let Some(row) = row.filter(is_wanted) else {
            return false;
        };
        row.attempt = AttemptId::NIL;
        match step.action() {
            ForcedAction::Release | ForcedAction::Delete => {
                row.state = State::Released;
                row.expires_at = 0;
            }
            ForcedAction::Fail { failure, retention } => {
                row.state = State::Failed(failure.clone(), now);
                row.expires_at = now.saturating_add(whole_millis_as_micros(*retention));
            }
        }
        true
    }

    /// Replaces the stored forms of the record, if it is as wanted.
    fn rewrite_now(&self, rewrite: &Rewrite) -> bool {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let row = shared.rows.get_mut(&self.key(rewrite.key()));
        let is_wanted = |row: &&mut Row| {
            let ignores_token = self.bug == Bug::RewriteIgnoresToken;
            row.is_live(now) && (ignores_token || row.token == rewrite.token().as_i64())
        };
        let Some(row) = row.filter(is_wanted) else {
            return false;
        };
        match (&mut row.state, rewrite.result()) {
            (State::Completed(response, _), StoredResult::Response(new)) => *response = new.clone(),
            (State::Failed(failure, _), StoredResult::Failure(new)) => *failure = new.clone(),
            _ => return false,
        }
        row.request = row
            .request
            .clone()
            .with_metadata(rewrite.metadata().clone());
        if self.bug == Bug::RewriteExtendsRetention {
            row.expires_at += 1_000_000;
        }
        true
    }

    async fn force_now(&self, step: &ForcedStep) -> Result<Forced> {
        let before = self.summary_now(step.key());
        let is_held = |before: &RecordSummary| match self.bug {
            Bug::ForceIgnoresToken => step.action().applies_to(before.state),
            _ => step.applies_to(before),
        };
        match (self.bug, before) {
            (
                Bug::ForceIgnoresToken | Bug::ForceIsNotRecorded | Bug::ForceChecksThenWrites,
                Some(before),
            ) if is_held(&before) => {
                self.dawdle(&[Bug::ForceChecksThenWrites]).await;
                self.take(step, |_| true);
                Ok(Forced::Done { before })
            }
            (Bug::ForceLeavesHolder, Some(before)) if is_held(&before) => {
                // Only the lease ends: the old holder may still complete.
                let shared = &mut *self.shared();
                let now = self.now(shared);
                if let Some(row) = shared.rows.get_mut(&self.key(step.key())) {
                    row.lease_ends_at = now;
                }
                Ok(Forced::Done { before })
            }
            _ => force(&mut Steps(self), step, &self.limits()).await,
        }
    }
}

struct Steps<'s>(&'s MutantStore);

#[async_trait]
impl ForcedSteps for Steps<'_> {
    async fn held(&mut self, key: &Key) -> Result<Option<RecordSummary>> {
        Ok(self.0.summary_now(key))
    }

    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.0.claim(request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.0.complete(claim, response, retention).await
    }

    async fn take(&mut self, step: &ForcedStep, seen: SummaryState) -> Result<bool> {
        Ok(self.0.take(step, |summary| {
            summary.token == step.token() && summary.state.stored() == seen.stored()
        }))
    }
}

#[async_trait]
impl RecordAdmin for MutantStore {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let page = self.list_now(filter, after, limit);
        page.map_err(|error| error.at("mutant", "list"))
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        Ok(self.summary_now(key))
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        let forced = self.force_now(step).await;
        forced.map_err(|error: Error| error.at("mutant", "force"))
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        check::rewrite(rewrite, &self.limits()).map_err(|error| error.at("mutant", "rewrite"))?;
        Ok(self.rewrite_now(rewrite))
    }
}
