//! [`MemoryStore`]: the reference for all other stores.

mod admin;
mod capabilities;
mod clock;
mod marks;
mod queue;
mod row;
mod rows;
mod shard;
mod sync;
mod work;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::clock::Clock;
use self::row::Lease;
use self::rows::HashedKey;
use self::shard::{GivenResult, Shard};
use self::sync::{Mutex, lock};
use self::work::{Progress, Work};
use crate::backend::check;
use crate::{
    BatchStore, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Error, Failure, Finish,
    IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result, Timestamp,
    WatermarkStore,
};

const BACKEND: &str = "memory";

/// A power of two, so that some bits of a hash choose the shard.
const SHARDS: usize = 64;

/// The lowest of the hash bits that choose the shard. A shard's table indexes by the bits below,
/// and distinguishes neighbours by the highest seven.
const SHARD_BITS_FROM: u32 = 48;

/// A store in the memory of this process: for tests, for single-process programs, and as the
/// reference of the suite. All laws hold, but a record dies with the process.
///
/// A clone is another handle of the same store. Its clock is the wall clock at its creation,
/// advanced monotonically. The map is sharded. Each shard changes under one short lock that is
/// never held across an await, so every operation is ready at its first poll. Claims of new keys
/// delete a few expired records in passing; [`delete_expired`](IdempotencyStore::delete_expired)
/// deletes all. The same holds for watermarks.
///
/// The chapter [`testing`](crate::guide::testing) of the guide has tests with it.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    clock: Clock,
    limits: Limits,
}

impl MemoryStore {
    /// Creates an empty store with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(Limits::DEFAULT)
    }

    /// Creates an empty store with these limits.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Self {
            shared: Arc::new(Shared {
                shards,
                hasher: RandomState::new(),
                clock: Clock::start(),
                limits,
            }),
        }
    }

    /// Returns how many records are held, including expired ones that are not deleted yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared
            .shards
            .iter()
            .map(|shard| lock(shard).len())
            .sum()
    }

    /// Returns whether no record is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs `change` on the key's shard. The clock is read under the lock, so instants of one key
    /// never go back.
    fn on_shard<'k, T>(
        &self,
        key: &'k Key,
        change: impl FnOnce(&mut Shard, HashedKey<'k>, Timestamp) -> T,
    ) -> T {
        let hash = self.shared.hasher.hash_one(key);
        let number = (hash >> SHARD_BITS_FROM) as usize % SHARDS;
        let mut shard = lock(&self.shared.shards[number]);
        let now = self.shared.clock.now();
        change(&mut shard, HashedKey { key, hash }, now)
    }

    fn claim_now(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let checked = check::claim(request, &self.shared.limits)?;
        self.on_shard(request.key(), |shard, key, now| {
            let ends_at = later(now, checked.lease);
            let lease = Lease {
                now,
                ends_at,
                expires_at: later(ends_at, checked.retention),
            };
            shard.claim(key, request, &lease)
        })
    }

    fn seal_now(&self, claim: &Claim, result: GivenResult<'_>, retention: Duration) -> Result<()> {
        let retention = check::retention(retention)?;
        let limits = &self.shared.limits;
        match result {
            // This store does not keep the stored form.
            GivenResult::Response(response) => check::response_fits(response, limits)?,
            GivenResult::Failure(failure) => drop(check::failure(failure, limits)?),
        }
        self.on_shard(claim.key(), |shard, key, now| {
            shard.seal(key, claim, result, later(now, retention), now)
        })
    }

    fn release_now(&self, claim: &Claim) -> Result<()> {
        self.on_shard(claim.key(), |shard, key, now| {
            shard.release(key, claim, now)
        })
    }

    /// Works through the shards, each in bounded holds of its lock, until `limit` is reached.
    fn in_batches(
        &self,
        limit: u32,
        mut step: impl FnMut(&mut Shard, Timestamp, Work) -> Progress,
    ) -> Result<u64> {
        let mut left = check::batch(limit)?;
        for shard in &self.shared.shards {
            let mut more = true;
            while more && left > 0 {
                let mut shard = lock(shard);
                let progress = step(&mut shard, self.shared.clock.now(), Work::at_most(left));
                left -= progress.changed;
                more = progress.more;
            }
        }
        Ok(u64::from(limit - left))
    }
}

fn later(instant: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(instant.as_micros().saturating_add(micros))
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl IdempotencyStore for MemoryStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn limits(&self) -> Limits {
        self.shared.limits
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        Some(self)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.claim_now(request)
            .map_err(|error| error.at(BACKEND, "claim"))
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.seal_now(claim, GivenResult::Response(response), retention)
            .map_err(|error| error.at(BACKEND, "complete"))
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.seal_now(claim, GivenResult::Failure(failure), retention)
            .map_err(|error| error.at(BACKEND, "fail"))
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.release_now(claim)
            .map_err(|error| error.at(BACKEND, "release"))
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        let lease = check::lease(lease).map_err(|error| error.at(BACKEND, "renew"))?;
        self.on_shard(claim.key(), |shard, key, now| {
            shard.renew(key, claim, later(now, lease), now)
        })
        .map_err(|error| error.at(BACKEND, "renew"))
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        Ok(self.on_shard(key, |shard, key, now| shard.get(key, now)))
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.in_batches(limit, Shard::expire_some)
            .map_err(|error| error.at(BACKEND, "delete_expired"))
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.in_batches(limit, Shard::abandon_some)
            .map_err(|error| error.at(BACKEND, "fail_abandoned"))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BatchStore for MemoryStore {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let claim = |request| {
            check::batch_items(requests.len())
                .and_then(|()| self.claim_now(request))
                .map_err(|error| error.at(BACKEND, "claim_many"))
        };
        requests.iter().map(claim).collect()
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let finish = |item: &Finish| {
            check::batch_items(items.len())?;
            match item {
                Finish::Complete {
                    claim,
                    response,
                    retention,
                } => self.seal_now(claim, GivenResult::Response(response), *retention),
                Finish::Fail {
                    claim,
                    failure,
                    retention,
                } => self.seal_now(claim, GivenResult::Failure(failure), *retention),
                Finish::Release { claim } => self.release_now(claim),
            }
        };
        let at = |error: Error| error.at(BACKEND, "finish_many");
        items.iter().map(|item| finish(item).map_err(at)).collect()
    }
}
