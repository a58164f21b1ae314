//! The watermarks of a shard.

use std::collections::HashMap;

use super::queue::Queue;
use super::row::UNQUEUED;
use super::work::{Progress, Work};
use crate::{Advance, Key, Timestamp};

/// Marks by source, apart from the records.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    marks: HashMap<Key, Mark>,
    expiries: Queue<Key>,
}

#[derive(Debug, Clone)]
struct Mark {
    version: u64,
    expires_at: Timestamp,
    /// When the entry that counts in the queue of expiries falls due.
    expiry_queued: Timestamp,
}

impl Marks {
    pub(super) fn advance(
        &mut self,
        source: &Key,
        version: u64,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Advance {
        match self.get(source, now) {
            Some(current) if current == version => return Advance::Unchanged,
            Some(current) if current > version => return Advance::Stale { current },
            Some(_) => {}
            None => drop(self.expire_some(now, Work::IN_PASSING)),
        }
        let mark = self.marks.entry(source.clone()).or_insert(Mark {
            version,
            expires_at,
            expiry_queued: UNQUEUED,
        });
        mark.version = version;
        mark.expires_at = expires_at;
        self.expiries
            .schedule(source, expires_at, &mut mark.expiry_queued);
        if self.expiries.is_mostly_spent(self.marks.len()) {
            let entry = |(source, mark): (&Key, &Mark)| (mark.expiry_queued, source.clone());
            self.expiries = self.marks.iter().map(entry).collect();
        }
        Advance::Advanced
    }

    pub(super) fn get(&self, source: &Key, now: Timestamp) -> Option<u64> {
        let mark = self.marks.get(source)?;
        (mark.expires_at > now).then_some(mark.version)
    }

    /// Deletes marks whose retention has ended.
    pub(super) fn expire_some(&mut self, now: Timestamp, work: Work) -> Progress {
        work.through(|| {
            let (due, source) = self.expiries.pop_due(now)?;
            let Some(mark) = self.marks.get_mut(&source) else {
                return Some(false);
            };
            if mark.expiry_queued != due {
                return Some(false);
            }
            if mark.expires_at <= now {
                self.marks.remove(&source);
                return Some(true);
            }
            mark.expiry_queued = UNQUEUED;
            self.expiries
                .schedule(&source, mark.expires_at, &mut mark.expiry_queued);
            Some(false)
        })
    }
}
