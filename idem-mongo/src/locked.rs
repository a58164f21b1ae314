//! Writes with a short wait for other callers' open transactions.
//!
//! A write outside a transaction may meet a document that an open transaction has written. Then the
//! server itself repeats the write, until that transaction ends or the write's `maxTimeMS` is over:
//! <https://www.mongodb.com/docs/manual/core/transactions-production-consideration/#in-progress-transactions-and-write-conflicts>.
//! So each deciding write gets [`MAX_LOCK_WAIT`]. Its end by `maxTimeMS` may have two other
//! reasons, a slow server and members that confirm slowly, and neither may fail a write:
//!
//! * members that confirm slowly: the server answers with the document and a write concern error.
//!   The store repeats the write, which changes nothing, with all the remaining time, and gives
//!   later writes longer ([`Patience`]);
//! * a slow server: the write ended before it wrote. To distinguish this from a lock, a transaction
//!   of the store's own touches the document and is aborted, because in a transaction the server
//!   answers a conflict at once (112). Without a conflict, the store repeats the write with more
//!   time.
//!
//! That transaction runs in the session of the write. A server refuses a statement of a session
//! that is older than one it has already taken (`TransactionTooOld`). So a first try of the driver
//! that is still under way cannot take effect after it:
//! <https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md>.
//!
//! At most one caller of a process waits for one key. A key that was found locked is refused
//! without a wait for 100 ms to 1 s, and looked up once in 25 ms. On secantusd, a write outside
//! waits for the transaction's end or its `maxTimeMS` (50). There a write inside another
//! transaction gets 112 at once, and an upsert of a key that is being inserted conflicts likewise.
//! A `mongos` passes `maxTimeMS` to the shards from 5.0 on (SERVER-46187).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::backend::{LockedKeys, MAX_LOCK_WAIT};
use idem_core::{AttemptId, Claim, Effect, Error, Key, Result};
use mongodb::bson::{Document, doc};
use mongodb::error::Error as MongoError;
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
use mongodb::{ClientSession, Collection};
use tokio::time::Instant;

use crate::error::{Access, is_write_conflict};
use crate::operations::Operations;
use crate::session::{Change, Changed, Session, Tried};
use crate::statements;

/// How often a write that ended before it wrote is repeated, each time with four times the time.
const MORE_TIME: u32 = 4;

/// The documents of one collection, and which of them are locked.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) collection: Collection<Document>,
    pub(crate) locked: LockedKeys,
    looked: Looked,
}

impl Documents {
    pub(crate) fn new(collection: Collection<Document>) -> Self {
        Self {
            collection,
            locked: LockedKeys::new(),
            looked: Looked::default(),
        }
    }

    /// Returns whether a claim of this key may read its record: one claim each moment if the key is
    /// locked.
    pub(crate) fn may_look(&self, key: &Key) -> bool {
        self.looked.is_due(key)
    }

    /// Notes that a claim of this key has met a lock.
    pub(crate) fn was_locked(&self, key: &Key) {
        self.looked.note(key);
    }

    /// Notes that a claim of this key got its outcome.
    pub(crate) fn was_answered(&self, key: &Key) {
        self.looked.forget(key);
    }
}

/// When locked keys were last looked up. Concurrent claims of a locked key share one lookup each
/// moment; otherwise their reads would take server time from other callers.
#[derive(Debug, Default)]
struct Looked {
    keys: Mutex<HashMap<String, Instant>>,
    /// The number of keys, so that callers rarely need the mutex.
    count: AtomicUsize,
}

impl Looked {
    /// The time after which a claim may see what was committed meanwhile; until then it gets
    /// `Contention`.
    const MOMENT: Duration = Duration::from_millis(25);
    /// After this time without claims the key is removed.
    const LONGEST: Duration = Duration::from_secs(2);
    const MOST: usize = 1024;

    fn keys(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this caller may look the key up: no lock is known, or the last lookup is
    /// more than a moment ago.
    fn is_due(&self, key: &Key) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return true;
        }
        match self.keys().get_mut(&key.path()) {
            Some(looked) if looked.elapsed() < Self::MOMENT => false,
            Some(looked) => {
                *looked = Instant::now();
                true
            }
            None => true,
        }
    }

    fn note(&self, key: &Key) {
        let mut keys = self.keys();
        if keys.len() >= Self::MOST {
            keys.retain(|_, looked| looked.elapsed() < Self::LONGEST);
        }
        // The caller that finds the first lock looks up at once, also for all that met the lock
        // with it.
        let before = Instant::now().checked_sub(Self::MOMENT);
        keys.entry(key.path())
            .or_insert_with(|| before.unwrap_or_else(Instant::now));
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    fn forget(&self, key: &Key) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut keys = self.keys();
            keys.remove(&key.path());
            self.count.store(keys.len(), Ordering::Relaxed);
        }
    }
}

/// How long a write may take before the store checks whether its document is locked:
/// [`MAX_LOCK_WAIT`], or longer if members confirm slowly. A checked write is sent twice.
#[derive(Debug)]
pub(crate) struct Patience(AtomicU64);

impl Patience {
    const LEAST: u64 = MAX_LOCK_WAIT.as_micros() as u64;
    /// The upper limit; if confirmations take longer, each write is sent twice.
    const MOST: u64 = 2_000_000;

    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Self::LEAST))
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// Notes that a write was done, and not confirmed within this time.
    fn was_too_short(&self, within: Duration) {
        if within >= self.get() {
            self.set(self.0.load(Ordering::Relaxed).saturating_mul(2));
        }
    }

    /// Notes that a write was confirmed after this time: if that is far shorter, the limit falls
    /// slowly back to the least.
    fn learn(&self, took: Duration) {
        let patience = self.0.load(Ordering::Relaxed);
        if patience > Self::LEAST && took.as_micros() < u128::from(patience / 4) {
            self.set(patience - patience / 64);
        }
    }

    fn set(&self, micros: u64) {
        let micros = micros.clamp(Self::LEAST, Self::MOST);
        self.0.store(micros, Ordering::Relaxed);
    }
}

impl Operations {
    /// Writes the document of this key. In a caller's transaction a conflict returns `Contention`
    /// at once.
    ///
    /// # Errors
    ///
    /// `Contention`, without effect, when another open transaction has written the document.
    pub(crate) async fn write_document(
        &self,
        session: &mut Session<'_>,
        documents: &Documents,
        key: &Key,
        change: Change,
    ) -> Result<Changed> {
        let collection = &documents.collection;
        if session.is_in_transaction() || !self.has_transactions.load(Ordering::Relaxed) {
            return session.change(collection, change).await;
        }
        let Some(turn) = documents.locked.turn(key, session.left()).await? else {
            return Ok(Changed::AfterAnother);
        };
        let mut own = self.own_session(session).await?;
        let mut within = self.patience.get();
        loop {
            let begun = Instant::now();
            let tried;
            (own, tried) = session
                .try_change(collection, change.clone(), within, own)
                .await?;
            match tried {
                Tried::Changed(changed) => {
                    self.patience.learn(begun.elapsed());
                    return Ok(changed);
                }
                Tried::Unconfirmed => {
                    self.patience.was_too_short(within);
                    within = session.left();
                }
                Tried::OutOfTime => {
                    let held;
                    (own, held) = touch(session, collection, key, own)
                        .await
                        .map_err(|error| error.with_effect(Effect::Unknown))?;
                    if held {
                        turn.found_locked();
                        return Err(LockedKeys::error());
                    }
                    within = within.saturating_mul(MORE_TIME);
                }
            }
        }
    }

    /// Returns the error for a holder whose claim no statement has found: `ClaimLost`. While an
    /// open transaction holds the document, the claim may be in that transaction, so the error is
    /// `Contention`. Returns `None` when the claim was committed meanwhile: repeat the statement.
    pub(crate) async fn lost(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Error>> {
        if session.is_in_transaction() || !self.has_transactions.load(Ordering::Relaxed) {
            return Ok(Some(Error::claim_lost()));
        }
        let look = statements::token(claim.key());
        let found = self.one(session, look, Access::Read).await?;
        let latest = found.map_or(Ok(0), |row| row.number("token"))?;
        // A later acquisition is committed: no commit brings this claim back.
        if latest > claim.token().as_i64() {
            return Ok(Some(Error::claim_lost()));
        }
        let records = &self.records;
        let own = self.own_session(session).await?;
        let (_, held) = touch(session, &records.collection, claim.key(), own).await?;
        if held {
            records.locked.found_locked(claim.key());
            return Ok(Some(LockedKeys::error()));
        }
        let is_gone = self.owned(session, claim).await?.is_none();
        Ok(is_gone.then(Error::claim_lost))
    }

    /// Starts a session of the store's own; that sends nothing.
    async fn own_session(&self, session: &Session<'_>) -> Result<ClientSession> {
        let client = self.client.clone();
        let started = session
            .by_itself(Access::Read, async move {
                client.start_session().causal_consistency(false).await
            })
            .await?;
        started.map_err(|error| crate::error::classify(error, Access::Read))
    }
}

/// Returns whether an open transaction has written the key's document: if so, another transaction
/// that writes it fails at once, and is aborted. If the check itself fails, the write decides
/// within its own time.
async fn touch(
    session: &Session<'_>,
    collection: &Collection<Document>,
    key: &Key,
    mut own: ClientSession,
) -> Result<(ClientSession, bool)> {
    let (collection, filter) = (collection.clone(), statements::key_filter(key));
    let mark = statements::binary(AttemptId::random().as_bytes());
    let left = session.left();
    let touched = session
        .by_itself(Access::Read, async move {
            let begun = own
                .start_transaction()
                .read_concern(ReadConcern::local())
                .write_concern(WriteConcern::nodes(1))
                .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
                .await;
            let touched = match begun {
                Ok(()) => {
                    // The update has to change something: one that changes nothing meets no
                    // conflict.
                    collection
                        .find_one_and_update(filter, vec![doc! { "$set": { "touched": mark } }])
                        .upsert(true)
                        .projection(doc! { "_id": 1 })
                        .max_time(left)
                        .session(&mut own)
                        .await
                        .map(drop)
                }
                Err(error) => Err(error),
            };
            // If the abort fails, the server ends the transaction; after an error it already has.
            let _ = own.abort_transaction().await;
            Ok::<_, MongoError>((own, touched))
        })
        .await?;
    let (own, touched) = touched.map_err(|error| crate::error::classify(error, Access::Read))?;
    Ok((own, touched.is_err_and(|error| is_write_conflict(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_key_is_looked_for_once_a_moment() {
        let key = |id| Key::new("tenant", "pay", id).unwrap();
        let (looked, locked, other) = (Looked::default(), key("one"), key("other"));
        assert!(looked.is_due(&locked) && looked.is_due(&locked));
        looked.note(&locked);
        let begun = Instant::now();
        assert!(looked.is_due(&locked));
        looked.note(&locked);
        assert!(!looked.is_due(&locked) || begun.elapsed() >= Looked::MOMENT);
        assert!(looked.is_due(&other) && looked.is_due(&other));
        std::thread::sleep(2 * Looked::MOMENT);
        assert!(looked.is_due(&locked));
        looked.forget(&locked);
        assert!(looked.is_due(&locked) && looked.is_due(&locked));
    }

    #[test]
    fn patience_grows_where_members_confirm_slowly_and_comes_back() {
        let patience = Patience::new();
        assert_eq!(patience.get(), MAX_LOCK_WAIT);
        patience.was_too_short(Duration::from_millis(10));
        assert_eq!(
            patience.get(),
            MAX_LOCK_WAIT,
            "of a shorter time it says nothing"
        );
        for _ in 0..10 {
            patience.was_too_short(patience.get());
        }
        assert_eq!(patience.get(), Duration::from_secs(2));
        patience.learn(Duration::from_millis(600));
        assert_eq!(patience.get(), Duration::from_secs(2), "it is needed");
        for _ in 0..1000 {
            patience.learn(Duration::from_millis(2));
        }
        assert_eq!(patience.get(), MAX_LOCK_WAIT);
    }
}
