//! Writes that wait for nobody's open transaction for long.
//!
//! A write outside of a transaction that meets a document which an open transaction has written is
//! sent again by the server itself, until that transaction ends or the write's `maxTimeMS` is over:
//! <https://www.mongodb.com/docs/manual/core/transactions-production-consideration/#in-progress-transactions-and-write-conflicts>.
//! So each deciding write is given [`MAX_LOCK_WAIT`]. Its end by `maxTimeMS` may have two other
//! reasons, a server that is slow and members that confirm slowly, and neither may fail a write:
//!
//! * members that confirm slowly: the server answers with the document and a write concern error.
//!   The write is repeated, which changes nothing, with all the time that is left, and the next
//!   ones are given longer ([`Patience`]);
//! * before it wrote: a transaction of the store's own touches the document and is aborted. In a
//!   transaction a conflict is answered at once (112), so this tells a lock from a slow server, for
//!   which the write is repeated with more time.
//!
//! That transaction runs in the session of the write. A server takes no statement of a session that
//! is older than one that it has taken already (`TransactionTooOld`), so a first try of the
//! driver's that is still under way cannot take effect after it:
//! <https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md>.
//!
//! At most one caller of a process waits for one key. A key that was found locked is refused
//! without a wait for 100 ms to 1 s, and looked up once in 25 ms. Seen on secantusd: a write
//! outside waits for the transaction's end or its `maxTimeMS` (50), a write inside another
//! transaction gets 112 at once, an upsert of a key that is being inserted conflicts likewise. A
//! `mongos` passes `maxTimeMS` to the shards from 5.0 on (SERVER-46187).

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

/// How often a write that was ended before it wrote is repeated with four times the time.
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

    /// Whether a claim of this key may look for its record: of a key that is locked, one a moment.
    pub(crate) fn may_look(&self, key: &Key) -> bool {
        self.looked.is_due(key)
    }

    /// A claim of this key has met a lock.
    pub(crate) fn was_locked(&self, key: &Key) {
        self.looked.note(key);
    }

    /// A claim of this key was answered.
    pub(crate) fn was_answered(&self, key: &Key) {
        self.looked.forget(key);
    }
}

/// When keys that are locked were looked for. Callers who ask for such a key all the time share one
/// look each moment; otherwise their reads would take the server's time from others.
#[derive(Debug, Default)]
struct Looked {
    keys: Mutex<HashMap<String, Instant>>,
    /// How many there are, so that mostly nobody waits for the others.
    count: AtomicUsize,
}

impl Looked {
    /// So late a claim may see what was committed meanwhile; until then it is told to ask again.
    const MOMENT: Duration = Duration::from_millis(25);
    /// A key that nobody asks for is forgotten then.
    const LONGEST: Duration = Duration::from_secs(2);
    const MOST: usize = 1024;

    fn keys(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the key is not locked, as far as is known, or nobody has just looked, so that this
    /// caller does.
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
        // Who finds the first lock looks at once, and by that for all who met it with it.
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

/// How long a write may take before it is asked whether its document is locked: [`MAX_LOCK_WAIT`],
/// or longer where members confirm slowly, because a write that is asked about is sent twice.
#[derive(Debug)]
pub(crate) struct Patience(AtomicU64);

impl Patience {
    const LEAST: u64 = MAX_LOCK_WAIT.as_micros() as u64;
    /// Beyond that, each write is sent twice.
    const MOST: u64 = 2_000_000;

    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Self::LEAST))
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// A write was done, and not confirmed within this time.
    fn was_too_short(&self, within: Duration) {
        if within >= self.get() {
            self.set(self.0.load(Ordering::Relaxed).saturating_mul(2));
        }
    }

    /// A write was confirmed after this time: back to the least, slowly, where that is far shorter.
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
    /// Writes the document of this key. In a caller's transaction a conflict is answered at once,
    /// as `Contention`.
    ///
    /// # Errors
    ///
    /// `Contention`, without effect, when another transaction that is still open has written the
    /// document.
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

    /// What a holder is told whose claim no statement has found: that it is lost, or, while an open
    /// transaction holds the document, that the claim may be in that. `None` when it was committed
    /// in between: ask again.
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
        // A later acquisition stands: no commit brings this one back.
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

    /// A session of the store's own; starting it sends nothing.
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

/// Whether a transaction that is still open has written the key's document: another that writes it
/// too, and is aborted, fails at once then. What cannot be asked is left to the write itself, which
/// has its time.
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
                    // It has to change something: what changes nothing meets no conflict.
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
            // The server ends it, if that fails; after an error it has done so already.
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
