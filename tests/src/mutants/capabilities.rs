//! Checkpoints and watermarks of a mutant.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::{check, whole_millis_as_micros};
use idem_core::{
    Advance, Checkpoint, CheckpointStore, Claim, Error, IdempotencyStore, Key, Result,
    WatermarkStore,
};

use super::row::Mark;
use super::row::{Row, State};
use super::store::Shared;
use super::{Bug, MutantStore};

fn at(operation: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.at("mutant", operation)
}

impl MutantStore {
    /// Returns the row of a claim that is held and in flight.
    fn in_flight<'a>(&self, shared: &'a mut Shared, claim: &Claim) -> Result<&'a mut Row> {
        let now = self.now(shared);
        let row = match self.bug {
            Bug::CheckpointChecksNothing => {
                let row = shared.rows.get_mut(&self.key(claim.key()));
                let row = row.filter(|row| row.is_live(now));
                row.ok_or_else(Error::claim_lost)?
            }
            _ => self.owned(shared, claim, now)?,
        };
        let late = self.bug == Bug::CheckpointNeedsLease && row.is_stale(now);
        match row.state {
            State::InFlight if !late => Ok(row),
            _ => Err(Error::claim_lost()),
        }
    }

    fn put(&self, row: &mut Row, point: &Checkpoint) {
        let mut point = point.clone();
        if self.bug == Bug::CheckpointCut && point.data().len() > 65_535 {
            let cut = point.data().slice(..65_535);
            point = Checkpoint::new(point.name(), cut).expect("the name is valid");
        }
        if self.bug == Bug::CheckpointRenews {
            row.lease_ends_at += 1000;
        }
        match &mut row.checkpoint {
            Some(_) if self.bug == Bug::FirstCheckpointStands => {}
            last => *last = Some(point),
        }
    }

    fn mark_key(&self, source: &Key) -> Vec<String> {
        match self.bug {
            Bug::MarkOfTheScope => vec![source.scope().to_owned()],
            _ => self.key(source),
        }
    }

    fn live_mark(&self, shared: &mut Shared, source: &Key) -> Option<Mark> {
        let now = self.now(shared);
        let mark = shared.marks.get(&self.mark_key(source)).copied();
        mark.filter(|mark| mark.expires_at > now || self.bug == Bug::MarkNeverExpires)
    }

    /// Returns whether the version raises the mark.
    fn is_newer(&self, version: u64, mark: Mark) -> bool {
        match self.bug {
            Bug::MarkLastWriterWins => version != mark.version,
            Bug::MarkIsText => version.to_string() > mark.version.to_string(),
            Bug::EqualVersionAdvances => version >= mark.version,
            _ => version > mark.version,
        }
    }

    /// Returns the outcome for a mark that is not raised.
    fn not_raised(&self, shared: &mut Shared, source: &Key, version: u64, mark: Mark) -> Advance {
        if self.bug == Bug::StaleVersionKeepsMark
            && let Some(kept) = shared.marks.get_mut(&self.mark_key(source))
        {
            kept.expires_at += 50_000;
        }
        match mark.version == version && self.bug != Bug::EqualVersionIsStale {
            true => Advance::Unchanged,
            false => Advance::Stale {
                current: mark.version,
            },
        }
    }

    fn raise(&self, shared: &mut Shared, source: &Key, version: u64, retention: Duration) {
        let now = self.now(shared);
        let expires_at = now.saturating_add(whole_millis_as_micros(retention));
        let key = self.mark_key(source);
        let kept = match self.bug {
            Bug::MarkKeepsFirstRetention => shared.marks.get(&key).map(|mark| mark.expires_at),
            _ => None,
        };
        let version = match self.bug {
            Bug::MarkIsFloat => version as f64 as u64,
            _ => version,
        };
        let expires_at = kept.filter(|end| *end > now).unwrap_or(expires_at);
        shared.marks.insert(
            key,
            Mark {
                version,
                expires_at,
            },
        );
    }
}

#[async_trait]
impl CheckpointStore for MutantStore {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let stored = checkpoint.encode(&self.limits());
        self.check(stored).map_err(at("checkpoint"))?;
        if self.bug == Bug::CheckpointChecksThenWrites {
            self.in_flight(&mut self.shared(), claim)
                .map(drop)
                .map_err(at("checkpoint"))?;
            self.dawdle(&[self.bug]).await;
            if let Some(row) = self.shared().rows.get_mut(&self.key(claim.key())) {
                self.put(row, checkpoint);
            }
            return Ok(());
        }
        let shared = &mut *self.shared();
        let row = self.in_flight(shared, claim).map_err(at("checkpoint"))?;
        self.put(row, checkpoint);
        Ok(())
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        let shared = &mut *self.shared();
        let row = self.in_flight(shared, claim);
        let row = row.map_err(at("last_checkpoint"))?;
        Ok(row.checkpoint.clone())
    }
}

#[async_trait]
impl WatermarkStore for MutantStore {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        let checked = check::version(version).and_then(|_| check::retention(retention));
        self.check(checked).map_err(at("advance"))?;
        let mark = self.live_mark(&mut self.shared(), source);
        self.dawdle(&[Bug::MarkChecksThenWrites]).await;
        let shared = &mut *self.shared();
        let mark = match self.bug {
            Bug::MarkChecksThenWrites => mark,
            _ => self.live_mark(shared, source),
        };
        match mark {
            Some(mark) if !self.is_newer(version, mark) => {
                Ok(self.not_raised(shared, source, version, mark))
            }
            _ => {
                self.raise(shared, source, version, retention);
                Ok(Advance::Advanced)
            }
        }
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        let mark = self.live_mark(&mut self.shared(), source);
        Ok(mark.map(|mark| mark.version))
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        let checked = check::batch(limit);
        self.check(checked)
            .map_err(at("delete_expired_watermarks"))?;
        let shared = &mut *self.shared();
        let now = self.now(shared);
        let goes = |mark: &Mark| mark.expires_at <= now || self.bug == Bug::PurgeTakesLiveMarks;
        let gone = shared.marks.iter().filter(|(_, mark)| goes(mark));
        let gone: Vec<_> = gone
            .map(|(key, _)| key.clone())
            .take(limit as usize)
            .collect();
        shared.marks.retain(|key, _| !gone.contains(key));
        Ok(gone.len() as u64)
    }
}
