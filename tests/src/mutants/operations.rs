//! The operations of a mutant.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::{check, whole_millis_as_micros};
use idem_core::{
    CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Conflict, Error, FailedPolicy, Failure,
    FencingToken, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result,
    StalePolicy, Timestamp, WatermarkStore,
};

use super::row::{Row, State};
use super::store::Shared;
use super::{Bug, MutantStore, disguise};

impl MutantStore {
    pub(super) fn check<T>(&self, checked: Result<T>) -> Result<()> {
        match checked {
            Err(_) if self.bug == Bug::ChecksNothing => Ok(()),
            checked => checked.map(drop),
        }
    }

    pub(super) fn claim_now(&self, request: &ClaimRequest) -> ClaimOutcome {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let key = self.key(request.key());
        let Some(row) = shared.rows.get_mut(&key).filter(|row| row.is_live(now)) else {
            return self.acquire(shared, request, now, None);
        };
        let mut record = row.record(now).expect("it is live");
        if !self.is_same(row, request) {
            if self.bug == Bug::LogsKey {
                tracing::trace!(target: "idem_mutant", scope = request.key().scope(), "a conflict");
            }
            if self.bug == Bug::ConflictTouches {
                row.lease_ends_at += 1000;
                row.expires_at += 1000;
            }
            return ClaimOutcome::Conflict(Conflict {
                info: record.info().clone(),
            });
        }
        let own = row.attempt == request.attempt() && self.bug != Bug::ForgetsOwnClaim;
        match &row.state {
            State::InFlight
                if own && !(row.is_stale(now) && self.bug == Bug::OwnClaimIsTakeover) =>
            {
                let old = row.clone();
                return self.acquire(shared, request, now, Some(&(old, true)));
            }
            State::InFlight if row.is_stale(now) || self.bug == Bug::LastWriterWins => {
                if row.may_be_taken_over(request, self.bug) {
                    let old = row.clone();
                    return self.acquire(shared, request, now, Some(&(old, false)));
                }
                row.abandon(now, self.bug);
                record = row.record(now).expect("it is live");
            }
            State::Failed(..) if request.on_failed() == FailedPolicy::Retry => {
                let old = row.clone();
                return self.acquire(shared, request, now, Some(&(old, false)));
            }
            _ if self.bug == Bug::CountsDuplicates => row.attempts += 1,
            _ => {}
        }
        let fingerprint = record.info().fingerprint;
        ClaimOutcome::from_record(record, &fingerprint)
    }

    fn is_same(&self, row: &Row, request: &ClaimRequest) -> bool {
        let (stored, given) = (row.request.fingerprint(), request.fingerprint());
        match (self.bug, &row.state) {
            (Bug::IgnoresScheme, _) => stored.digest() == given.digest(),
            (Bug::ReplaysToAnyRequest, State::Completed(..)) => true,
            (Bug::TakeoverIgnoresFingerprint, State::InFlight) => {
                stored == given || row.lease_ends_at <= self.now(&mut Shared::default())
            }
            _ => stored == given,
        }
    }

    /// Writes the row of a holder; `before` is the earlier row, and whether it was the holder's
    /// own.
    fn acquire(
        &self,
        shared: &mut Shared,
        request: &ClaimRequest,
        now: i64,
        before: Option<&(Row, bool)>,
    ) -> ClaimOutcome {
        let key = self.key(request.key());
        let (token, attempts, created_at) = match before {
            Some((row, true)) => (row.token, row.attempts, row.created_at),
            Some((row, false)) if self.bug == Bug::TakeoverKeepsToken => {
                (row.token, row.attempts + 1, row.created_at)
            }
            Some((row, false)) => (
                self.next_token(shared, now),
                row.attempts + 1,
                row.created_at,
            ),
            None if self.bug == Bug::TokenStartsAgain => (1, 1, now),
            None => (self.next_token(shared, now), 1, now),
        };
        let lease_ends_at = now.saturating_add(whole_millis_as_micros(request.lease()));
        let expires_at = lease_ends_at.saturating_add(whole_millis_as_micros(request.retention()));
        let old = match before {
            Some((row, own)) => row.left_behind(*own, now, self.bug),
            None => {
                let old = shared.rows.get(&key);
                old.and_then(|row| row.left_behind(false, now, self.bug))
            }
        };
        let row = Row {
            checkpoint: old,
            request: request.clone(),
            token,
            attempt: request.attempt(),
            attempts,
            created_at,
            lease_ends_at,
            expires_at,
            state: State::InFlight,
        };
        let claim = self.claim_of(&row, request.key(), now);
        shared.rows.insert(key, row);
        ClaimOutcome::Acquired(claim)
    }

    fn next_token(&self, shared: &mut Shared, now: i64) -> i64 {
        shared.last_token = now.max(shared.last_token + 1);
        shared.last_token
    }

    fn claim_of(&self, row: &Row, key: &Key, now: i64) -> Claim {
        let at = Timestamp::from_micros;
        let token = FencingToken::from_i64(row.token);
        let (granted_at, ends_at) = (at(now), at(row.lease_ends_at));
        Claim::new(
            key.clone(),
            token,
            row.request.attempt(),
            row.attempts,
            granted_at,
            ends_at,
        )
    }

    /// Returns the live row of the claim, if the claim owns it.
    pub(super) fn owned<'a>(
        &self,
        shared: &'a mut Shared,
        claim: &Claim,
        now: i64,
    ) -> Result<&'a mut Row> {
        let row = shared.rows.get_mut(&self.key(claim.key()));
        let late = |row: &Row| self.bug == Bug::LateHolderLoses && row.is_stale(now);
        row.filter(|row| row.is_live(now) && row.is_owned_by(claim, self.bug) && !late(row))
            .ok_or_else(Error::claim_lost)
    }

    pub(super) fn seal(&self, claim: &Claim, state: State, retention: Duration) -> Result<()> {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let row = self.owned(shared, claim, now)?;
        let overwrites = self.bug == Bug::SecondCompletionOverwrites;
        match (&row.state, &state) {
            (State::InFlight, _) => {}
            (State::Completed(old, _), State::Completed(new, _)) if old == new => {
                return match self.bug {
                    Bug::SecondCompletionFails => Err(Error::already_sealed()),
                    _ => Ok(()),
                };
            }
            (State::Failed(old, _), State::Failed(new, _)) if old == new => return Ok(()),
            _ if overwrites => {}
            _ => return Err(Error::already_sealed()),
        }
        row.state = match state {
            State::Completed(response, _) => State::Completed(response, now),
            State::Failed(failure, _) => State::Failed(failure, now),
            other => other,
        };
        let kept = whole_millis_as_micros(retention);
        row.expires_at = match self.bug {
            Bug::NeverExpires => i64::MAX,
            Bug::ExpiresEarly => now.saturating_add(kept / 2),
            _ => now.saturating_add(kept),
        };
        Ok(())
    }

    /// The second step of [`Bug::SealsInTwoSteps`].
    fn fill_in(&self, claim: &Claim, half: &Response, whole: Response) {
        let mut shared = self.shared();
        let row = shared.rows.get_mut(&self.key(claim.key()));
        if let Some(State::Completed(response, _)) = row.map(|row| &mut row.state)
            && response == half
        {
            *response = whole;
        }
    }

    fn release_now(&self, claim: &Claim) -> Result<()> {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let row = shared.rows.get_mut(&self.key(claim.key()));
        let mine = |row: &Row| row.is_owned_by(claim, self.bug) || self.bug == Bug::AnyoneReleases;
        let row = row.filter(|row| mine(row)).ok_or_else(Error::claim_lost)?;
        match row.state {
            State::Released if self.bug == Bug::SecondReleaseFails => Err(Error::claim_lost()),
            State::Released => Ok(()),
            State::InFlight if row.is_live(now) => {
                if self.bug == Bug::ReleaseLeavesRecord {
                    row.lease_ends_at = now;
                } else {
                    row.state = State::Released;
                }
                Ok(())
            }
            _ => Err(Error::claim_lost()),
        }
    }

    fn renew_now(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let key = self.key(claim.key());
        let row = match self.bug {
            Bug::AnyoneRenews => shared.rows.get_mut(&key).filter(|row| row.is_live(now)),
            _ => self.owned(shared, claim, now).ok(),
        };
        let row = row.filter(|row| matches!(row.state, State::InFlight));
        let row = row.ok_or_else(Error::claim_lost)?;
        let ends_at = now.saturating_add(whole_millis_as_micros(lease));
        let longer = ends_at - row.lease_ends_at;
        if longer > 0 || self.bug == Bug::RenewalShortens {
            row.lease_ends_at += longer;
            row.expires_at += longer;
        }
        let row = row.clone();
        Ok(self.claim_of(&row, claim.key(), now))
    }

    pub(super) fn is_free(&self, key: &Key) -> bool {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let row = shared.rows.get(&self.key(key));
        row.is_none_or(|row| !row.is_live(now))
    }

    pub(super) async fn claim_checked(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.check(check::claim(request, &self.limits()))?;
        if let Some(answer) = self.beside_transactions(request).await {
            return answer;
        }
        if let Some(completed) = self.remembered(request.key()) {
            return Ok(ClaimOutcome::Completed(completed));
        }
        let was_free = self.is_free(request.key());
        self.dawdle(&[Bug::CheckThenInsert]).await;
        if was_free && self.bug == Bug::CheckThenInsert {
            return Ok(self.acquire_blindly(request));
        }
        let outcome = self.claim_now(request);
        self.remember(request.key(), &outcome);
        Ok(outcome)
    }

    pub(super) fn acquire_blindly(&self, request: &ClaimRequest) -> ClaimOutcome {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        self.acquire(shared, request, now, None)
    }
}

/// Adds a driver's error that quotes data as its source, as some drivers do: the source may quote,
/// and the error itself may not repeat it.
fn quoting(error: Error, claim: &Claim) -> Error {
    let key = claim.key();
    error.with_source(format!("no row for ({}, {})", key.scope(), key.id()))
}

#[async_trait]
impl IdempotencyStore for MutantStore {
    fn backend(&self) -> &'static str {
        "mutant"
    }

    fn limits(&self) -> Limits {
        Limits::DEFAULT.with_max_result_bytes(2 << 20)
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        (self.bug != Bug::OffersLess).then_some(self as _)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        if self.bug == Bug::PoisonedByDrop {
            let key = self.key(request.key());
            while !self.shared().busy.insert(key.clone()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
            self.shared().busy.remove(&key);
        }
        let outcome = self.claim_checked(request).await;
        outcome.map_err(|error| error.at("mutant", "claim"))
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let checked =
            check::retention(retention).and_then(|_| check::response(response, &self.limits()));
        self.check(checked)
            .and_then(|()| self.step_beside_transactions(claim))
            .map_err(|error| error.at("mutant", "complete"))?;
        let kept = disguise::response(self.bug, response);
        if self.bug == Bug::SealsInTwoSteps {
            let half = Response::new(kept.status(), "");
            let first = self.seal(claim, State::Completed(half.clone(), 0), retention);
            self.dawdle(&[self.bug]).await;
            if first.is_ok() {
                self.fill_in(claim, &half, kept.clone());
            }
        }
        let body = String::from_utf8_lossy(kept.body()).into_owned();
        let sealed = self.seal(claim, State::Completed(kept, 0), retention);
        sealed.map_err(|error| match self.bug {
            Bug::ErrorQuotesPayload => {
                let message = format!("sealed already, not with {body}");
                Error::new(error.kind(), error.effect(), message).at("mutant", "complete")
            }
            _ => quoting(error, claim).at("mutant", "complete"),
        })
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        let checked =
            check::retention(retention).and_then(|_| check::failure(failure, &self.limits()));
        let sealed = self
            .check(checked)
            .and_then(|()| self.step_beside_transactions(claim))
            .and_then(|()| self.seal(claim, State::Failed(failure.clone(), 0), retention));
        sealed.map_err(|error| error.at("mutant", "fail"))
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        if self.bug == Bug::PanicQuotesKey {
            let scope = claim.key().scope().to_owned();
            tokio::spawn(async move { panic!("cannot forget {scope}") });
            tokio::task::yield_now().await;
        }
        let free = self.step_beside_transactions(claim);
        let released = free.and_then(|()| self.release_now(claim));
        released.map_err(|error| quoting(error, claim).at("mutant", "release"))
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        let renewed = self
            .check(check::lease(lease))
            .and_then(|()| self.step_beside_transactions(claim))
            .and_then(|()| self.renew_now(claim, lease));
        renewed.map_err(|error| quoting(error, claim).at("mutant", "renew"))
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        if let Some(completed) = self.remembered(key) {
            return Ok(Some(Record::Completed(completed)));
        }
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let row = self.committed(shared, &self.key(key));
        Ok(row.and_then(|row| row.record(now)))
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.check(check::batch(limit))
            .map_err(|error| error.at("mutant", "delete_expired"))?;
        let bug = self.bug;
        let most = match bug {
            Bug::PurgeIgnoresLimit => usize::MAX,
            _ => limit as usize,
        };
        let goes = move |row: &Row, now| {
            !row.is_live(now) || (bug == Bug::PurgesStale && row.is_stale(now))
        };
        let found = self.select(most, goes);
        if bug == Bug::PurgeChecksThenDeletes {
            tokio::task::yield_now().await;
        }
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let is_blind = bug == Bug::PurgeChecksThenDeletes;
        let mut gone = found;
        gone.retain(|key| is_blind || shared.rows.get(key).is_some_and(|row| goes(row, now)));
        gone.iter().for_each(|key| drop(shared.rows.remove(key)));
        if bug == Bug::MarksGoWithRecords {
            shared.marks.retain(|key, _| !gone.contains(key));
        }
        Ok(match bug {
            Bug::PurgeTellsLimit => u64::from(limit),
            _ => gone.len() as u64,
        })
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.check(check::batch(limit))
            .map_err(|error| error.at("mutant", "fail_abandoned"))?;
        let bug = self.bug;
        let fails = move |row: &Row, now| {
            let policy = row.request.on_stale() == StalePolicy::Fail || bug == Bug::SweepFailsAll;
            let open = matches!(row.state, State::InFlight);
            let over = row.is_stale(now) || (bug == Bug::SweepFailsLive && open);
            row.is_live(now) && policy && over
        };
        let found = self.select(limit as usize, fails);
        if bug == Bug::SweepCountsThenFails {
            tokio::task::yield_now().await;
        }
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let mut failed = 0;
        for key in &found {
            let row = shared.rows.get_mut(key);
            if let Some(row) = row.filter(|row| fails(row, now)) {
                row.abandon(now, bug);
                failed += 1;
            }
        }
        Ok(match bug {
            Bug::SweepCountsThenFails => found.len() as u64,
            _ => failed,
        })
    }
}

impl MutantStore {
    /// Returns the keys of some of these rows, which may change until they are used.
    fn select(&self, most: usize, wanted: impl Fn(&Row, i64) -> bool) -> Vec<Vec<String>> {
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let rows = shared.rows.iter().filter(|(_, row)| wanted(row, now));
        rows.map(|(key, _)| key.clone()).take(most).collect()
    }
}
