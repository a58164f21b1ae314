//! [`ModelShard`]: a shard of the memory store as a value, for the model of it in `idem-prove`.
//!
//! It is the code of the store, without its lock and its clock: each operation gets the instant at
//! which it takes effect.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::queue::Queue;
use super::row::{Lease, Row, State, UNQUEUED};
use super::rows::HashedKey;
use super::shard::{GivenResult, Shard};
use super::work::Work;
use super::{check, later};
use crate::{
    Checkpoint, Claim, ClaimOutcome, ClaimRequest, Failure, Key, Limits, Record, Response, Result,
    Timestamp,
};

/// A shard that can be copied, and compared by everything that its next answers depend on.
#[derive(Clone)]
pub struct ModelShard {
    shard: Shard,
    collides: bool,
}

impl ModelShard {
    /// Creates an empty shard. `collides`: all keys have one hash.
    #[must_use]
    pub fn new(collides: bool) -> Self {
        Self {
            shard: Shard::default(),
            collides,
        }
    }

    fn keyed<'k, T>(
        &mut self,
        key: &'k Key,
        change: impl FnOnce(&mut Shard, HashedKey<'k>) -> T,
    ) -> T {
        let hash = self.hash_of(key);
        change(&mut self.shard, HashedKey { key, hash })
    }

    fn hash_of(&self, key: &Key) -> u64 {
        let mut hasher = DefaultHasher::new();
        if !self.collides {
            key.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Claims, as [`MemoryStore`](crate::MemoryStore) does.
    ///
    /// # Errors
    ///
    /// As for a store.
    pub fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Result<ClaimOutcome> {
        let checked = check::claim(request, &Limits::DEFAULT)?;
        let ends_at = later(now, checked.lease);
        let lease = Lease {
            now,
            ends_at,
            expires_at: later(ends_at, checked.retention),
        };
        self.keyed(request.key(), |shard, key| {
            shard.claim(key, request, &lease)
        })
    }

    /// Completes.
    ///
    /// # Errors
    ///
    /// As for a store.
    pub fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
        now: Timestamp,
    ) -> Result<()> {
        self.seal(claim, GivenResult::Response(response), retention, now)
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// As for a store.
    pub fn fail(
        &mut self,
        claim: &Claim,
        failure: &Failure,
        retention: Duration,
        now: Timestamp,
    ) -> Result<()> {
        self.seal(claim, GivenResult::Failure(failure), retention, now)
    }

    fn seal(
        &mut self,
        claim: &Claim,
        result: GivenResult<'_>,
        retention: Duration,
        now: Timestamp,
    ) -> Result<()> {
        let expires_at = later(now, check::retention(retention)?);
        self.keyed(claim.key(), |shard, key| {
            shard.seal(key, claim, result, expires_at, now)
        })
    }

    /// Releases.
    ///
    /// # Errors
    ///
    /// As for a store.
    pub fn release(&mut self, claim: &Claim, now: Timestamp) -> Result<()> {
        self.keyed(claim.key(), |shard, key| shard.release(key, claim, now))
    }

    /// Extends the lease.
    ///
    /// # Errors
    ///
    /// As for a store.
    pub fn renew(&mut self, claim: &Claim, lease: Duration, now: Timestamp) -> Result<Claim> {
        let ends_at = later(now, check::lease(lease)?);
        self.keyed(claim.key(), |shard, key| {
            shard.renew(key, claim, ends_at, now)
        })
    }

    /// Stores a checkpoint.
    ///
    /// # Errors
    ///
    /// As for a store.
    pub fn checkpoint(&mut self, claim: &Claim, point: &Checkpoint, now: Timestamp) -> Result<()> {
        self.keyed(claim.key(), |shard, key| {
            shard.store_checkpoint(key, claim, point, now)
        })
    }

    /// Reads the last checkpoint.
    ///
    /// # Errors
    ///
    /// As for a store.
    pub fn last_checkpoint(&mut self, claim: &Claim, now: Timestamp) -> Result<Option<Checkpoint>> {
        self.keyed(claim.key(), |shard, key| {
            let point = shard.checkpoint(key, claim, now)?;
            Ok(point.as_deref().cloned())
        })
    }

    /// Reads the record.
    #[must_use]
    pub fn get(&self, key: &Key, now: Timestamp) -> Option<Record> {
        let hash = self.hash_of(key);
        self.shard.get(HashedKey { key, hash }, now)
    }

    /// Checks this many entries for `delete_expired`; returns how many rows are gone.
    pub fn delete_some(&mut self, entries: u32, now: Timestamp) -> u32 {
        self.shard.expire_some(now, Work::of(entries)).changed
    }

    /// Checks this many entries for `fail_abandoned`; returns how many rows it has failed.
    pub fn fail_some(&mut self, entries: u32, now: Timestamp) -> u32 {
        self.shard.abandon_some(now, Work::of(entries)).changed
    }

    /// Rebuilds the queues, which the store does only when most of their entries are spent.
    pub fn rebuild_queues(&mut self) {
        self.shard.rebuild_expiries();
        self.shard.rebuild_leases();
    }

    /// Returns what is wrong with the queues: a row that no entry will bring up in time. A row
    /// whose retention has ended needs no more than to be deleted.
    #[must_use]
    pub fn forgotten(&self, now: Timestamp) -> Option<&'static str> {
        let has = |queue: &Queue<u64>, due, row: &Row| {
            let hash = self.hash_of(&row.key);
            queue.entries().flatten().any(|entry| entry == (due, hash))
        };
        let Shard {
            rows,
            expiries,
            leases,
            ..
        } = &self.shard;
        rows.iter().find_map(|row| {
            let is_expiry_due =
                row.expiry_queued <= row.expires_at && has(expiries, row.expiry_queued, row);
            let is_sweep_due = !row.is_live(now)
                || row.sweep_due() == UNQUEUED
                || row.lease_queued <= row.sweep_due() && has(leases, row.lease_queued, row);
            match (is_expiry_due, is_sweep_due) {
                (false, _) => Some("no entry will delete the row"),
                (true, false) => Some("no entry will fail the row"),
                (true, true) => None,
            }
        })
    }

    /// Writes everything that the next answers depend on.
    fn project(&self, hasher: &mut impl Hasher) {
        let mut rows: Vec<&Row> = self.shard.rows.iter().collect();
        rows.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        rows.len().hash(hasher);
        for row in rows {
            row.key.hash(hasher);
            row.fingerprint.to_bytes().hash(hasher);
            (row.token, row.attempt, row.attempts).hash(hasher);
            (row.expires_at, row.expiry_queued, row.lease_queued).hash(hasher);
            match &row.state {
                State::InFlight {
                    lease_ends_at,
                    on_stale,
                    checkpoint,
                } => {
                    (0, lease_ends_at, *on_stale as u8).hash(hasher);
                    checkpoint.as_ref().map(|point| point.name()).hash(hasher);
                }
                State::Completed { response, .. } => (1, response.body()).hash(hasher),
                State::Failed { failure, .. } => (2, failure.code()).hash(hasher),
                State::Released => 3.hash(hasher),
            }
        }
        for queue in [&self.shard.expiries, &self.shard.leases] {
            queue.entries().for_each(|line| line.hash(hasher));
        }
        self.shard.last_token.hash(hasher);
    }
}

impl Hash for ModelShard {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.project(hasher);
    }
}

impl PartialEq for ModelShard {
    fn eq(&self, other: &Self) -> bool {
        let written = |shard: &Self| {
            let mut written = Written(Vec::new());
            shard.project(&mut written);
            written.0
        };
        written(self) == written(other)
    }
}

/// A hasher that keeps what is written.
struct Written(Vec<u8>);

impl Hasher for Written {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl fmt::Debug for ModelShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shard.fmt(f)
    }
}
