//! A shard: the rows of some keys, changed under one lock.

use super::marks::Marks;
use super::queue::Queue;
use super::row::{Decision, Held, Lease, Row, State, UNQUEUED};
use super::rows::{HashedKey, Rows};
use super::work::{Progress, Work};
use crate::admin::{Rewrite, SummaryState};
use crate::backend::StoredResult;
use crate::backend::decision::{StepDecision, decide_release, decide_renewal, decide_seal};
use crate::{
    AttemptId, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Error, Failure, FencingToken, Record,
    Response, Result, Timestamp,
};

#[derive(Debug, Clone)]
pub(super) struct Shard {
    pub(super) rows: Rows,
    /// When rows have to be checked, by the hash of their key.
    pub(super) expiries: Queue<u64>,
    pub(super) leases: Queue<u64>,
    pub(super) marks: Marks,
    /// The greatest token ever granted, so that tokens grow also after a row is gone.
    pub(super) last_token: FencingToken,
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            rows: Rows::default(),
            expiries: Queue::default(),
            leases: Queue::default(),
            marks: Marks::default(),
            last_token: FencingToken::from_i64(0),
        }
    }
}

impl Shard {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn claim(
        &mut self,
        key: HashedKey<'_>,
        request: &ClaimRequest,
        lease: &Lease,
    ) -> Result<ClaimOutcome> {
        let decision = match self.rows.get_mut(key) {
            Some(row) => row.decide(request, lease.now),
            None => {
                self.expire_some(lease.now, Work::IN_PASSING);
                Decision::fresh(lease.now)
            }
        };
        let held = match decision {
            Decision::Acquire {
                attempts,
                created_at,
                checkpoint,
            } => {
                self.last_token = self.last_token.next_at(lease.now)?;
                Held {
                    token: self.last_token,
                    attempts,
                    created_at,
                    checkpoint,
                }
            }
            Decision::Own(held) => held,
            Decision::Lose(record) => {
                return Ok(ClaimOutcome::from_record(record, request.fingerprint()));
            }
        };
        Ok(self.hold(key, request, lease, held))
    }

    /// Writes the row of a holder.
    fn hold(
        &mut self,
        key: HashedKey<'_>,
        request: &ClaimRequest,
        lease: &Lease,
        held: Held,
    ) -> ClaimOutcome {
        let (token, attempts) = (held.token, held.attempts);
        let row = self
            .rows
            .put(key, Box::new(Row::held(request, lease, held)));
        schedule(&mut self.expiries, &mut self.leases, key, lease.now, row);
        self.tidy();
        ClaimOutcome::Acquired(Claim::new(
            key.key.clone(),
            token,
            request.attempt(),
            attempts,
            lease.now,
            lease.ends_at,
        ))
    }

    /// Rebuilds the queues when most of their entries no longer count, so that they stay in
    /// proportion to the rows, however short-lived these are.
    fn tidy(&mut self) {
        let rows = self.rows.len();
        if self.expiries.is_mostly_spent(rows) {
            self.rebuild_expiries();
        }
        if self.leases.is_mostly_spent(rows) {
            self.rebuild_leases();
        }
    }

    pub(super) fn rebuild_expiries(&mut self) {
        self.expiries = self.rows.entries(|row| row.expiry_queued).collect();
    }

    pub(super) fn rebuild_leases(&mut self) {
        self.leases = self.rows.entries(|row| row.lease_queued).collect();
    }

    /// Seals the claim with the result of `state`, except when it is already sealed in the same
    /// way.
    pub(super) fn seal(
        &mut self,
        key: HashedKey<'_>,
        claim: &Claim,
        result: GivenResult<'_>,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        let row = self.rows.get_mut(key).ok_or_else(Error::claim_lost)?;
        let is_same = || match (&row.state, &result) {
            (State::Completed { response, .. }, GivenResult::Response(given)) => response == *given,
            (State::Failed { failure, .. }, GivenResult::Failure(given)) => failure == *given,
            _ => false,
        };
        match decide_seal(Some(&row.facts()), claim, is_same, now) {
            StepDecision::Apply => {}
            StepDecision::Done => return Ok(()),
            StepDecision::Lost => return Err(Error::claim_lost()),
            StepDecision::AlreadySealed => return Err(Error::already_sealed()),
        }
        row.state = match result {
            GivenResult::Response(response) => State::Completed {
                response: response.clone(),
                sealed_at: now,
            },
            GivenResult::Failure(failure) => State::Failed {
                failure: failure.clone(),
                sealed_at: now,
            },
        };
        row.expires_at = expires_at;
        self.expiries
            .schedule(&key.hash, expires_at, &mut row.expiry_queued);
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        key: HashedKey<'_>,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<()> {
        let row = self.rows.get_mut(key).ok_or_else(Error::claim_lost)?;
        match decide_release(Some(&row.facts()), claim, now) {
            StepDecision::Done => Ok(()),
            StepDecision::Apply => {
                row.give_up();
                self.expiries
                    .schedule(&key.hash, row.expires_at, &mut row.expiry_queued);
                Ok(())
            }
            StepDecision::Lost | StepDecision::AlreadySealed => Err(Error::claim_lost()),
        }
    }

    /// Takes a forced step on the live row with this token and the state that was seen; returns
    /// whether there was one. `failure` and the end of its retention: fails the row, otherwise it is
    /// released.
    pub(super) fn force(
        &mut self,
        key: HashedKey<'_>,
        token: FencingToken,
        seen: SummaryState,
        failure: Option<(&Failure, Timestamp)>,
        now: Timestamp,
    ) -> bool {
        let row = self.rows.get_mut(key);
        let is_seen = |row: &&mut Row| {
            let state = row.summary(now).and_then(|row| row.state.stored());
            row.token == token && state.is_some() && state == seen.stored()
        };
        let Some(row) = row.filter(is_seen) else {
            return false;
        };
        row.attempt = AttemptId::NIL;
        match failure {
            None => row.give_up(),
            Some((failure, expires_at)) => {
                row.state = State::Failed {
                    failure: failure.clone(),
                    sealed_at: now,
                };
                row.expires_at = expires_at;
            }
        }
        self.expiries
            .schedule(&key.hash, row.expires_at, &mut row.expiry_queued);
        true
    }

    /// Replaces result and metadata of the sealed live row, if it has this token and this kind of
    /// result.
    pub(super) fn rewrite(
        &mut self,
        key: HashedKey<'_>,
        rewrite: &Rewrite,
        now: Timestamp,
    ) -> bool {
        let row = self.rows.get_mut(key);
        let Some(row) = row.filter(|row| row.token == rewrite.token() && row.is_live(now)) else {
            return false;
        };
        match (&mut row.state, rewrite.result()) {
            (State::Completed { response, .. }, StoredResult::Response(new)) => {
                *response = new.clone();
            }
            (State::Failed { failure, .. }, StoredResult::Failure(new)) => *failure = new.clone(),
            _ => return false,
        }
        row.metadata = rewrite.metadata().clone();
        true
    }

    /// Returns all rows, in no order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Returns the row of the key.
    pub(super) fn row(&self, key: HashedKey<'_>) -> Option<&Row> {
        self.rows.get(key)
    }

    pub(super) fn renew(
        &mut self,
        key: HashedKey<'_>,
        claim: &Claim,
        lease_ends_at: Timestamp,
        now: Timestamp,
    ) -> Result<Claim> {
        let row = held(&mut self.rows, key, claim, now)?;
        let State::InFlight {
            lease_ends_at: ends,
            ..
        } = &mut row.state
        else {
            return Err(Error::claim_lost());
        };
        let longer = lease_ends_at.saturating_since(*ends);
        *ends = ends.saturating_add(longer);
        row.expires_at = row.expires_at.saturating_add(longer);
        let ends = *ends;
        schedule(&mut self.expiries, &mut self.leases, key, now, row);
        Ok(Claim::new(
            key.key.clone(),
            claim.token(),
            claim.attempt(),
            row.attempts,
            now,
            ends,
        ))
    }

    pub(super) fn store_checkpoint(
        &mut self,
        key: HashedKey<'_>,
        claim: &Claim,
        point: &Checkpoint,
        now: Timestamp,
    ) -> Result<()> {
        *self.checkpoint(key, claim, now)? = Some(Box::new(point.clone()));
        Ok(())
    }

    /// Returns the last checkpoint of a claim in flight.
    pub(super) fn checkpoint(
        &mut self,
        key: HashedKey<'_>,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<&mut Option<Box<Checkpoint>>> {
        match &mut held(&mut self.rows, key, claim, now)?.state {
            State::InFlight { checkpoint, .. } => Ok(checkpoint),
            _ => Err(Error::claim_lost()),
        }
    }

    pub(super) fn get(&self, key: HashedKey<'_>, now: Timestamp) -> Option<Record> {
        self.rows.get(key)?.record(now)
    }

    /// Deletes rows whose retention has ended.
    pub(super) fn expire_some(&mut self, now: Timestamp, work: Work) -> Progress {
        work.through(|| {
            let (due, hash) = self.expiries.pop_due(now)?;
            let Some(mut entry) = self.rows.find(hash, |row| row.expiry_queued == due) else {
                return Some(false);
            };
            if !entry.row().is_live(now) {
                entry.remove();
                return Some(true);
            }
            let row = entry.row();
            row.expiry_queued = UNQUEUED;
            self.expiries
                .schedule(&hash, row.look_at(now), &mut row.expiry_queued);
            Some(false)
        })
    }

    /// Fails stale rows that may not be taken over.
    pub(super) fn abandon_some(&mut self, now: Timestamp, work: Work) -> Progress {
        work.through(|| {
            let (due, hash) = self.leases.pop_due(now)?;
            let Some(mut entry) = self.rows.find(hash, |row| row.lease_queued == due) else {
                return Some(false);
            };
            let row = entry.row();
            row.lease_queued = UNQUEUED;
            let sweep_due = row.sweep_due();
            if sweep_due <= now && row.is_live(now) {
                row.abandon(now);
                return Some(true);
            }
            if sweep_due > now {
                self.leases
                    .schedule(&hash, sweep_due, &mut row.lease_queued);
            }
            Some(false)
        })
    }
}

/// The result that seals a claim.
#[derive(Debug, Clone, Copy)]
pub(super) enum GivenResult<'a> {
    Response(&'a Response),
    Failure(&'a Failure),
}

fn schedule(
    expiries: &mut Queue<u64>,
    leases: &mut Queue<u64>,
    key: HashedKey<'_>,
    now: Timestamp,
    row: &mut Row,
) {
    expiries.schedule(&key.hash, row.look_at(now), &mut row.expiry_queued);
    leases.schedule(&key.hash, row.sweep_due(), &mut row.lease_queued);
}

/// Returns the row that the claim holds in flight.
fn held<'a>(
    rows: &'a mut Rows,
    key: HashedKey<'_>,
    claim: &Claim,
    now: Timestamp,
) -> Result<&'a mut Row> {
    let row = rows.get_mut(key).ok_or_else(Error::claim_lost)?;
    match decide_renewal(Some(&row.facts()), claim, now) {
        StepDecision::Apply => Ok(row),
        _ => Err(Error::claim_lost()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{ErrorKind, Fingerprint, Key};

    fn request(id: &str) -> ClaimRequest {
        let key = Key::new("tenant", "pay", id).unwrap();
        ClaimRequest::new(key, Fingerprint::raw("request"))
    }

    fn claim(shard: &mut Shard, request: &ClaimRequest, now: i64) -> Result<ClaimOutcome> {
        let key = request.key();
        let lease = Lease {
            now: Timestamp::from_micros(now),
            ends_at: Timestamp::from_micros(now.saturating_add(1000)),
            expires_at: Timestamp::from_micros(now.saturating_add(2000)),
        };
        shard.claim(HashedKey { key, hash: 7 }, request, &lease)
    }

    #[test]
    fn no_two_acquisitions_have_the_greatest_token() {
        let mut shard = Shard {
            last_token: FencingToken::from_i64(i64::MAX - 1),
            ..Shard::default()
        };
        let last = claim(&mut shard, &request("a"), 1).unwrap();
        assert_eq!(last.acquired().unwrap().token().as_i64(), i64::MAX);
        let error = claim(&mut shard, &request("b"), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let loses = claim(&mut shard, &request("a"), 2).unwrap();
        assert_eq!(
            loses.name(),
            "in_flight",
            "a claim that acquires nothing is answered"
        );
    }

    #[test]
    fn the_clock_s_last_instants_are_no_panic() {
        let mut shard = Shard::default();
        let now = i64::MAX - 500;
        let request = request("a");
        let held = claim(&mut shard, &request, now)
            .unwrap()
            .acquired()
            .unwrap();
        assert_eq!(held.lease_granted(), Duration::from_micros(500));
        let key = request.key();
        let (key, end) = (HashedKey { key, hash: 7 }, Timestamp::from_micros(i64::MAX));
        let now = Timestamp::from_micros(now);
        let held = shard.renew(key, &held, end, now).unwrap();
        let response = Response::new(200, "done");
        shard
            .seal(key, &held, GivenResult::Response(&response), end, now)
            .unwrap();
        assert!(shard.get(key, now).is_some());
        shard.expire_some(end, Work::IN_PASSING);
        shard.abandon_some(end, Work::IN_PASSING);
    }
}
