//! A shard: the rows of some keys, changed under one lock.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::marks::Marks;
use super::queue::Queue;
use super::row::{Decision, Held, Row, State, UNQUEUED};
use crate::{
    Checkpoint, Claim, ClaimOutcome, ClaimRequest, Error, Failure, FencingToken, Key, Record,
    Response, Result, Timestamp,
};

/// How many queue entries one hold of the lock looks at.
pub(super) const ENTRIES_PER_LOCK: u32 = 256;

/// How many due entries a claim of a new key or the first mark of a source clears away in passing, so that a
/// store that nobody purges does not grow for ever.
pub(super) const CLEARED_IN_PASSING: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Shard {
    rows: HashMap<Key, Row>,
    expiries: Queue,
    leases: Queue,
    pub(super) marks: Marks,
    /// The greatest token given out, so that tokens grow also after a row is gone.
    last_token: i64,
}

/// The instants of a claim that is granted now.
pub(super) struct Lease {
    pub(super) now: Timestamp,
    pub(super) ends_at: Timestamp,
    pub(super) expires_at: Timestamp,
}

/// What one hold of the lock did for a purge or sweep.
pub(super) struct Progress {
    pub(super) changed: u32,
    pub(super) more: bool,
}

impl Shard {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn claim(&mut self, request: &ClaimRequest, lease: &Lease) -> ClaimOutcome {
        let decision = match self.rows.get_mut(request.key()) {
            Some(row) => row.decide(request, lease.now),
            None => {
                self.expire_some(lease.now, CLEARED_IN_PASSING);
                Decision::fresh(lease.now)
            }
        };
        let held = match decision {
            Decision::Acquire {
                attempts,
                created_at,
                checkpoint,
            } => {
                self.last_token = lease.now.as_micros().max(self.last_token.saturating_add(1));
                Held {
                    token: FencingToken::from_i64(self.last_token),
                    attempts,
                    created_at,
                    checkpoint,
                }
            }
            Decision::Own(held) => held,
            Decision::Lose(record) => {
                return ClaimOutcome::from_record(record, request.fingerprint());
            }
        };
        self.hold(request, lease, held)
    }

    /// Writes the row of a holder.
    fn hold(&mut self, request: &ClaimRequest, lease: &Lease, held: Held) -> ClaimOutcome {
        let Held {
            token, attempts, ..
        } = held;
        let key = request.key().clone();
        let entry = self.rows.entry(key.clone());
        let (expiry_queued, lease_queued) = match &entry {
            Entry::Occupied(old) => (old.get().expiry_queued, old.get().lease_queued),
            Entry::Vacant(_) => (UNQUEUED, UNQUEUED),
        };
        let mut entry = entry.insert_entry(Row {
            fingerprint: *request.fingerprint(),
            token,
            attempt: request.attempt(),
            attempts,
            created_at: held.created_at,
            expires_at: lease.expires_at,
            metadata: request.metadata().clone(),
            state: State::InFlight {
                lease_ends_at: lease.ends_at,
                on_stale: request.on_stale(),
                checkpoint: held.checkpoint,
            },
            expiry_queued,
            lease_queued,
        });
        schedule(&mut self.expiries, &mut self.leases, &key, entry.get_mut());
        let attempt = request.attempt();
        ClaimOutcome::Acquired(Claim::new(
            key,
            token,
            attempt,
            attempts,
            lease.now,
            lease.ends_at,
        ))
    }

    /// Seals the claim with what `state` makes, unless it is sealed so already.
    pub(super) fn seal(
        &mut self,
        claim: &Claim,
        result: Sealing<'_>,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        let row = owned(&mut self.rows, claim, now)?;
        match (&row.state, &result) {
            (State::InFlight { .. }, _) => {}
            (State::Completed { response, .. }, Sealing::Response(given)) if response == *given => {
                return Ok(());
            }
            (State::Failed { failure, .. }, Sealing::Failure(given)) if failure == *given => {
                return Ok(());
            }
            (State::Completed { .. } | State::Failed { .. }, _) => {
                return Err(Error::already_sealed());
            }
            (State::Released, _) => return Err(Error::claim_lost()),
        }
        row.state = match result {
            Sealing::Response(response) => State::Completed {
                response: response.clone(),
                sealed_at: now,
            },
            Sealing::Failure(failure) => State::Failed {
                failure: failure.clone(),
                sealed_at: now,
            },
        };
        row.expires_at = expires_at;
        self.expiries
            .schedule(claim.key(), row.expires_at, &mut row.expiry_queued);
        Ok(())
    }

    pub(super) fn release(&mut self, claim: &Claim, now: Timestamp) -> Result<()> {
        let row = self
            .rows
            .get_mut(claim.key())
            .filter(|row| row.is_owned_by(claim))
            .filter(|row| row.is_live(now) || matches!(row.state, State::Released))
            .ok_or_else(Error::claim_lost)?;
        match row.state {
            State::Released => Ok(()),
            State::InFlight { .. } => {
                row.state = State::Released;
                row.expires_at = Timestamp::default();
                self.expiries
                    .schedule(claim.key(), row.expires_at, &mut row.expiry_queued);
                Ok(())
            }
            State::Completed { .. } | State::Failed { .. } => Err(Error::claim_lost()),
        }
    }

    pub(super) fn renew(
        &mut self,
        claim: &Claim,
        lease_ends_at: Timestamp,
        now: Timestamp,
    ) -> Result<Claim> {
        let row = owned(&mut self.rows, claim, now)?;
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
        schedule(&mut self.expiries, &mut self.leases, claim.key(), row);
        let key = claim.key().clone();
        Ok(Claim::new(
            key,
            claim.token(),
            claim.attempt(),
            row.attempts,
            now,
            ends,
        ))
    }

    pub(super) fn store_checkpoint(
        &mut self,
        claim: &Claim,
        point: &Checkpoint,
        now: Timestamp,
    ) -> Result<()> {
        *self.checkpoint(claim, now)? = Some(point.clone());
        Ok(())
    }

    /// What the holder of a claim in flight left behind last.
    pub(super) fn checkpoint(
        &mut self,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<&mut Option<Checkpoint>> {
        match &mut owned(&mut self.rows, claim, now)?.state {
            State::InFlight { checkpoint, .. } => Ok(checkpoint),
            _ => Err(Error::claim_lost()),
        }
    }

    pub(super) fn get(&self, key: &Key, now: Timestamp) -> Option<Record> {
        self.rows.get(key)?.record(now)
    }

    /// Deletes at most `limit` rows whose retention has ended.
    pub(super) fn expire_some(&mut self, now: Timestamp, limit: u32) -> Progress {
        let mut changed = 0;
        for _ in 0..ENTRIES_PER_LOCK {
            if changed == limit {
                break;
            }
            let Some((due, key)) = self.expiries.pop_due(now) else {
                return Progress {
                    changed,
                    more: false,
                };
            };
            let Some(row) = self.rows.get_mut(&key) else {
                continue;
            };
            if row.expiry_queued != due {
                continue;
            }
            if row.is_live(now) {
                row.expiry_queued = UNQUEUED;
                self.expiries
                    .schedule(&key, row.expires_at, &mut row.expiry_queued);
            } else {
                self.rows.remove(&key);
                changed += 1;
            }
        }
        Progress {
            changed,
            more: true,
        }
    }

    /// Fails at most `limit` stale rows that may not be taken over.
    pub(super) fn abandon_some(&mut self, now: Timestamp, limit: u32) -> Progress {
        let mut changed = 0;
        for _ in 0..ENTRIES_PER_LOCK {
            if changed == limit {
                break;
            }
            let Some((due, key)) = self.leases.pop_due(now) else {
                return Progress {
                    changed,
                    more: false,
                };
            };
            let Some(row) = self.rows.get_mut(&key) else {
                continue;
            };
            if row.lease_queued != due {
                continue;
            }
            row.lease_queued = UNQUEUED;
            let sweep_due = row.sweep_due();
            if sweep_due <= now && row.is_live(now) {
                row.abandon(now);
                changed += 1;
            } else if sweep_due > now {
                self.leases.schedule(&key, sweep_due, &mut row.lease_queued);
            }
        }
        Progress {
            changed,
            more: true,
        }
    }
}

/// What a claim is sealed with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sealing<'a> {
    Response(&'a Response),
    Failure(&'a Failure),
}

fn schedule(expiries: &mut Queue, leases: &mut Queue, key: &Key, row: &mut Row) {
    expiries.schedule(key, row.expires_at, &mut row.expiry_queued);
    leases.schedule(key, row.sweep_due(), &mut row.lease_queued);
}

/// The live row of the claim, if it is its owner.
fn owned<'a>(
    rows: &'a mut HashMap<Key, Row>,
    claim: &Claim,
    now: Timestamp,
) -> Result<&'a mut Row> {
    rows.get_mut(claim.key())
        .filter(|row| row.is_live(now) && row.is_owned_by(claim))
        .ok_or_else(Error::claim_lost)
}
