//! Writes with a short wait for other callers' open transactions.
//!
//! A write outside a transaction may meet a document that an open transaction has written. Then the
//! server itself repeats the write, until that transaction ends or the write's `maxTimeMS` is over:
//! <https://www.mongodb.com/docs/manual/core/transactions-production-consideration/#in-progress-transactions-and-write-conflicts>.
//! So each deciding write gets [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT). Its end by
//! `maxTimeMS` may have two other reasons, a slow server and members that confirm slowly, and
//! neither may fail a write:
//!
//! * members that confirm slowly: the server answers with the document and a write concern error.
//!   The store repeats the write, which changes nothing, with all the remaining time, and gives
//!   later writes longer ([`WriteTimeout`](crate::documents::WriteTimeout));
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
//! A fresh key has no document, and then neither holds: an upsert that meets an uncommitted insert
//! repeats the conflict in a loop of the server that observes neither `maxTimeMS` nor a kill (seen
//! with 4.9 on a replica set; the loop stands in `UpsertStage` of 5.0 and 6.0, too:
//! <https://github.com/mongodb/mongo/blob/v6.0/src/mongo/db/exec/upsert_stage.cpp>). A claim in a
//! transaction of its own would get 112 at once, but would cost each claim a round trip for the
//! commit. So only a late answer costs more:
//!
//! * after twice the time that the server has, and again after three times, the touch distinguishes a
//!   lock from a slow server, as above. It needs another session, because the upsert occupies its
//!   own. Without a conflict, the store waits for the same command and sends nothing twice;
//! * with a conflict the call returns `Contention` with an unknown effect. The server still does the
//!   upsert when the transaction ends: after a commit it meets the record and changes nothing;
//!   after an abort it claims the key, by the clock of its start. A task waits for that and takes
//!   the claim back ([`take_back`](statements::take_back)). It finds it by the id of the call, so it
//!   takes nothing from a later call of the attempt;
//! * a process that is killed before, or loses the connection, leaves a claim that ends with its
//!   lease, like every process that is killed after a claim;
//! * in a batch, such a command holds up the keys after it. The call reads which are written, sends
//!   the others by themselves, and the task takes back those that the command claims late;
//! * the one caller that tries a locked key again touches it first, so few commands wait for one
//!   transaction. A mark is not taken back: an advance with a late answer has an unknown effect, and
//!   the first advance of a source touches its mark first.
//!
//! At most one caller of a process waits for one key. After the store has found a key locked, it
//! refuses the key without a wait for 100 ms to 1 s, and reads its record every 10 ms.
//!
//! On secantusd, a write outside a transaction waits for the transaction's end or its `maxTimeMS`
//! (50). There a write inside another transaction gets 112 at once, and an upsert of a key that is
//! being inserted conflicts likewise. A `mongos` passes `maxTimeMS` to the shards from 5.0 on
//! (SERVER-46187).

use std::sync::atomic::Ordering;

use idem_core::backend::{LockedKeys, MAX_LOCK_WAIT};
use idem_core::{AttemptId, Claim, Effect, Error, Key, Result};
use mongodb::bson::{Document, doc};
use mongodb::error::Error as MongoError;
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
use mongodb::{ClientSession, Collection};
use tokio::time::Instant;

use crate::documents::Documents;
use crate::error::{Access, classify, is_write_conflict};
use crate::operations::Operations;
use crate::session::{Change, Changed, Form, MAX_RETRIES, Session, Task, Tried, pause};
use crate::statements::{self, ClaimParams};

/// The factor by which a write gets more time after each try that ended before it wrote.
pub(crate) const TIMEOUT_FACTOR: u32 = 4;

impl Operations {
    /// Writes the document of this key. In a caller's transaction a conflict returns `Contention`
    /// at once.
    ///
    /// # Errors
    ///
    /// `Contention` when another open transaction has written the document: with an unknown effect
    /// when the server does not end the update, and otherwise without effect.
    pub(crate) async fn write_document(
        &self,
        session: &mut Session<'_>,
        documents: &Documents,
        key: &Key,
        change: Change,
        claim: Option<&ClaimParams<'_>>,
    ) -> Result<Changed> {
        let collection = &documents.collection;
        if session.is_in_transaction() || !self.has_transactions.load(Ordering::Relaxed) {
            return session.change(collection, change).await;
        }
        let Some(turn) = documents.locked.turn(key, session.left()).await? else {
            return Ok(Changed::AfterAnother);
        };
        let mut own = self.own_session(session).await?;
        let inserts = change.form == Form::Upsert;
        // A mark that is not read is not taken back; a key that was locked may still be.
        let mut is_free = !inserts || claim.is_some() && !documents.locked.was_locked(key);
        let begun = Instant::now();
        while !is_free {
            let held;
            (own, held) = touch(session, collection, key, own).await?;
            is_free = !held;
            if held && begun.elapsed() > MAX_LOCK_WAIT {
                turn.found_locked();
                return Err(LockedKeys::error());
            }
            if held {
                // Another caller may only have touched it.
                pause(MAX_RETRIES).await;
            }
        }
        let mut within = self.write_timeout.get();
        loop {
            let begun = Instant::now();
            let mut task = session.try_change(collection, change.clone(), within, own);
            let mut patience = match inserts {
                true => within * 2,
                false => session.left(),
            };
            let mut was_held = false;
            let answered = loop {
                if let Some(answered) = session.answer(Access::Write, &mut task, patience).await? {
                    break answered;
                }
                let held = self.is_held(session, documents, key).await;
                let held = held.map_err(|error| error.with_effect(Effect::Unknown))?;
                if held && was_held {
                    turn.found_locked();
                    if let Some(claim) = claim {
                        self.take_back_after(task, statements::take_back(claim));
                    }
                    return Err(LockedKeys::error().with_effect(Effect::Unknown));
                }
                // The first time it may have met this call's own write.
                was_held = held;
                patience = match held {
                    true => within,
                    false => patience.saturating_mul(TIMEOUT_FACTOR),
                };
            };
            let tried;
            (own, tried) = answered.map_err(|error| classify(error, Access::Write))?;
            match tried? {
                Tried::Changed(changed) => {
                    self.write_timeout.record_confirmed(begun.elapsed());
                    return Ok(changed);
                }
                Tried::Unconfirmed => {
                    self.write_timeout.record_unconfirmed(within);
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
                    within = within.saturating_mul(TIMEOUT_FACTOR);
                }
            }
        }
    }

    /// Takes back the claims that the server writes once it goes on with this command. If the
    /// command fails, or this process ends before, each of them ends with its lease.
    pub(crate) fn take_back_after<T: Send + 'static>(
        &self,
        command: Task<T>,
        claims: impl IntoIterator<Item = Document>,
    ) {
        let (config, records) = (self.config.clone(), self.records.collection.clone());
        let claims = claims.into_iter().collect();
        tokio::spawn(async move {
            drop(command.await);
            let session = Session::alone(&config);
            drop(session.update_many(&records, claims, session.left()).await);
        });
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
        let pipeline = statements::token(claim.key());
        let found = self.one(session, pipeline, Access::Read).await?;
        let latest = found.map_or(Ok(0), |row| row.number("token"))?;
        // A later acquisition is committed: no commit brings this claim back.
        if latest > claim.token().as_i64() {
            return Ok(Some(Error::claim_lost()));
        }
        if self.is_held(session, &self.records, claim.key()).await? {
            self.records.locked.found_locked(claim.key());
            return Ok(Some(LockedKeys::error()));
        }
        let is_gone = self.owned(session, claim).await?.is_none();
        Ok(is_gone.then(Error::claim_lost))
    }

    /// Returns whether an open transaction has written the key's document.
    pub(crate) async fn is_held(
        &self,
        session: &Session<'_>,
        documents: &Documents,
        key: &Key,
    ) -> Result<bool> {
        let own = self.own_session(session).await?;
        let (_, held) = touch(session, &documents.collection, key, own).await?;
        Ok(held)
    }

    /// Starts a session of the store's own, without a message to the server.
    async fn own_session(&self, session: &Session<'_>) -> Result<ClientSession> {
        let client = self.client.clone();
        let started = session
            .by_itself(Access::Read, async move {
                client.start_session().causal_consistency(false).await
            })
            .await?;
        started.map_err(|error| classify(error, Access::Read))
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
    let (own, touched) = touched.map_err(|error| classify(error, Access::Read))?;
    Ok((own, touched.is_err_and(|error| is_write_conflict(&error))))
}
