//! The operations, in the store's own session or in a caller's transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::backend::{
    DuplicateEstimator, FinalResult, LockedKeys, StoredRecord, check, encode_failure,
};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Key, Record, Result,
};
use mongodb::bson::Document;
use mongodb::options::{CollectionOptions, ReadPreference, SelectionCriteria};
use mongodb::{Client, Database};

use crate::config::Config;
use crate::documents::{Documents, WriteTimeout};
use crate::error::Access;
use crate::row::Row;
use crate::session::{Change, Changed, Form, MAX_RETRIES, Session, pause};
use crate::statements::{self, ClaimParams};

/// The state that all operations share, besides a session.
pub(crate) struct Operations {
    pub(crate) config: Config,
    pub(crate) client: Client,
    pub(crate) records: Documents,
    /// The watermarks, with the same concerns.
    pub(crate) watermarks: Documents,
    pub(crate) database: Database,
    /// Whether the store has seen the collection migrated. MongoDB would create a missing one with
    /// the first write, without its indexes.
    pub(crate) is_ready: AtomicBool,
    /// The same for the watermarks' collection, which came later: only callers of watermarks need
    /// it.
    pub(crate) has_watermarks: AtomicBool,
    /// Whether the store has seen that the deployment supports transactions.
    pub(crate) has_transactions: AtomicBool,
    pub(crate) write_timeout: WriteTimeout,
    pub(crate) estimator: DuplicateEstimator,
}

/// The database for a client whose URL names none.
const DATABASE: &str = "idem";

impl Operations {
    pub(crate) fn new(client: &Client, config: Config) -> Self {
        let database = match config.database() {
            Some(name) => client.database(name),
            None => client
                .default_database()
                .unwrap_or_else(|| client.database(DATABASE)),
        };
        let options = CollectionOptions::builder()
            .read_concern(config.durability().read_concern())
            .write_concern(config.durability().write_concern(config.timeout()))
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .build();
        let documents =
            |name: &str| Documents::new(database.collection_with_options(name, options.clone()));
        Self {
            client: client.clone(),
            records: documents(config.collection()),
            watermarks: documents(&config.watermarks()),
            database,
            config,
            is_ready: AtomicBool::new(false),
            has_watermarks: AtomicBool::new(false),
            has_transactions: AtomicBool::new(false),
            write_timeout: WriteTimeout::new(),
            estimator: DuplicateEstimator::expecting_duplicates(),
        }
    }

    /// Refuses to work on a collection that was not migrated; checks with the server once.
    pub(crate) async fn ready(&self, session: &Session<'_>) -> Result<()> {
        if !self.is_ready.load(Ordering::Relaxed) {
            self.verify_records(session).await?;
            self.is_ready.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Claims a key. Where keys are mostly fresh, the deciding update comes first. Otherwise the
    /// lookup comes first, because it answers any number of duplicates without a write.
    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let params = ClaimParams::new(request, check::claim(request, &self.config.limits())?);
        self.ready(session).await?;
        if self.is_locked(session, request.key()) {
            let locked = LockedKeys::error();
            return self.lost_or(session, &params, Access::Read, locked).await;
        }
        let seen = match self.looks_up_first(request.key()) {
            true => self.lookup(session, &params, Access::Read).await?,
            false => None,
        };
        self.claim_from(session, &params, seen).await
    }

    /// Claims after a lookup, and records the outcome in the estimator.
    pub(crate) async fn claim_from(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        seen: Option<Row>,
    ) -> Result<ClaimOutcome> {
        let outcome = self.claim_seen(session, params, seen).await?;
        let acquired = matches!(outcome, ClaimOutcome::Acquired(_));
        self.estimator.record(params.request.key(), !acquired);
        Ok(outcome)
    }

    /// Claims with the row of a lookup, or without a lookup. The document that carries this
    /// attempt's id proves what the update has written.
    async fn claim_seen(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        mut seen: Option<Row>,
    ) -> Result<ClaimOutcome> {
        let failure = encode_failure(&Failure::abandoned())?;
        let mut sent = Access::Read;
        let mut tries = 1;
        while tries <= MAX_RETRIES {
            if let Some(row) = seen {
                if row.is_held_against(params)? {
                    return row.loses(params);
                }
                row.check_token()?;
            }
            let change = Change {
                filter: statements::key_filter(params.request.key()),
                update: statements::claim(params, &failure),
                form: Form::Upsert,
            };
            let key = params.request.key();
            let changed = match self
                .write_document(session, &self.records, key, change, Some(params))
                .await
            {
                Ok(changed) => changed,
                Err(locked) if Self::is_readable(session, &locked) => {
                    let locked = since(locked, sent);
                    return self.lost_or(session, params, sent, locked).await;
                }
                Err(error) => return Err(since(error, sent)),
            };
            // Other callers of this process each had their one turn, so this does not count as a
            // try.
            tries += u32::from(!matches!(changed, Changed::AfterAnother));
            match changed {
                Changed::Document(document) => {
                    if let Some(outcome) = Row::new(document).decided(params, &failure)? {
                        return Ok(outcome);
                    }
                }
                Changed::AfterAnother => {}
                Changed::LostRace => pause(tries).await,
                Changed::Nothing => {
                    sent = Access::Write;
                    pause(tries).await;
                }
            }
            seen = self.lookup(session, params, sent).await?;
        }
        let effect = match sent {
            Access::Read => Effect::None,
            Access::Write => Effect::Unknown,
        };
        Err(Error::new(
            ErrorKind::Contention,
            effect,
            format!("the key changed hands {MAX_RETRIES} times while it was claimed; ask again"),
        ))
    }

    /// Returns whether another caller's transaction holds the key, and a read can still answer:
    /// inside a caller's transaction it cannot.
    fn is_readable(session: &Session<'_>, error: &Error) -> bool {
        error.kind() == ErrorKind::Contention && !session.is_in_transaction()
    }

    /// Answers the claim from the committed record, although an open transaction has locked it;
    /// otherwise returns this error.
    async fn lost_or(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        sent: Access,
        locked: Error,
    ) -> Result<ClaimOutcome> {
        let lost = async {
            match self.lookup(session, params, sent).await? {
                Some(row) if row.is_held_against(params)? => row.loses(params).map(Some),
                Some(_) | None => Ok(None),
            }
        };
        let lost = self.records.locked.read(params.request.key(), lost).await?;
        lost.ok_or(locked)
    }

    /// Returns whether the key is known to be locked, and this session writes outside the
    /// transaction that may hold it.
    pub(crate) fn is_locked(&self, session: &Session<'_>, key: &Key) -> bool {
        !session.is_in_transaction() && self.records.locked.is_locked(key)
    }

    /// Returns whether a claim reads the record before it writes.
    pub(crate) fn looks_up_first(&self, key: &Key) -> bool {
        self.estimator.expects_duplicate(key) || self.records.locked.is_locked(key)
    }

    pub(crate) async fn lookup(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        sent: Access,
    ) -> Result<Option<Row>> {
        let pipeline = statements::lookup(params.request.key(), &params.fingerprint);
        self.one(session, pipeline, sent).await
    }

    pub(crate) async fn one(
        &self,
        session: &mut Session<'_>,
        pipeline: Vec<Document>,
        sent: Access,
    ) -> Result<Option<Row>> {
        let found = session
            .read(&self.records.collection, pipeline, sent)
            .await?;
        Ok(found.into_iter().next().map(Row::new))
    }

    /// Seals or releases. A retention that is shorter than the members' confirmation may end before
    /// the server answers; the result is `ClaimLost` then.
    pub(crate) async fn finish(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        result: &FinalResult,
    ) -> Result<()> {
        self.ready(session).await?;
        for _ in 0..MAX_RETRIES {
            let update = match result.is_release() {
                true => statements::release(),
                false => statements::seal(result.state(), result.bytes(), result.retention()),
            };
            if self.write_held(session, claim, update).await? {
                return Ok(());
            }
            let Some(mut row) = self.owned(session, claim).await? else {
                match self.lost(session, claim).await? {
                    Some(lost) => return Err(lost),
                    None => continue,
                }
            };
            let (state, stored) = (row.state()?, row.take_result()?);
            match state {
                StoredRecord::RELEASED if result.is_release() => return Ok(()),
                _ if !row.is_live()? => return Err(Error::claim_lost()),
                // A caller's transaction has committed the claim a moment ago.
                StoredRecord::IN_FLIGHT => {}
                _ if result.is_same(state, stored.as_deref()) => return Ok(()),
                StoredRecord::COMPLETED | StoredRecord::FAILED if !result.is_release() => {
                    return Err(Error::already_sealed());
                }
                _ => return Err(Error::claim_lost()),
            }
        }
        Err(changed_too_often())
    }

    /// Updates the document if the claim is held; returns whether it was.
    ///
    /// The driver does not repeat this command, so it is sent again after an error that leaves its
    /// effect open. If it had taken effect, a checkpoint is written again, and an end finds no held
    /// claim: the caller then finds its own result in the record.
    pub(crate) async fn write_held(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        update: Vec<Document>,
    ) -> Result<bool> {
        let mut sent = Access::Read;
        loop {
            let change = Change {
                filter: statements::held_filter(claim),
                update: update.clone(),
                form: Form::Count,
            };
            let written = self.update_one(session, claim.key(), change).await;
            match written {
                Ok(row) => return Ok(row.is_some()),
                Err(error)
                    if sent == Access::Read
                        && error.kind() == ErrorKind::Unavailable
                        && error.effect() == Effect::Unknown
                        && !session.is_in_transaction()
                        && !session.is_over() =>
                {
                    sent = Access::Write;
                }
                Err(error) => return Err(since(error, sent)),
            }
        }
    }

    /// Updates the document of this key if it matches, and returns it in the form of the change.
    pub(crate) async fn update_one(
        &self,
        session: &mut Session<'_>,
        key: &Key,
        change: Change,
    ) -> Result<Option<Row>> {
        let mut tries = 0;
        while tries < MAX_RETRIES {
            let change = change.clone();
            match self
                .write_document(session, &self.records, key, change, None)
                .await?
            {
                Changed::Document(document) => return Ok(Some(Row::new(document))),
                Changed::Nothing => return Ok(None),
                Changed::AfterAnother => {}
                Changed::LostRace => {
                    tries += 1;
                    pause(tries).await;
                }
            }
        }
        Err(changed_too_often())
    }

    /// Returns the claim's own record, if the claim is still the latest acquisition.
    pub(crate) async fn owned(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Row>> {
        self.one(session, statements::owned(claim), Access::Read)
            .await
    }

    pub(crate) async fn renew(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Claim> {
        let lease = check::lease(lease)?;
        self.ready(session).await?;
        for _ in 0..MAX_RETRIES {
            let change = Change {
                filter: statements::held_filter(claim),
                update: statements::renew(lease),
                form: Form::Return,
            };
            if let Some(row) = self.update_one(session, claim.key(), change).await? {
                return renewed(claim, &row);
            }
            if let Some(lost) = self.not_held(session, claim).await? {
                return Err(lost);
            }
        }
        Err(changed_too_often())
    }

    /// Returns the error for a holder whose update has found no held claim; `None` when the claim
    /// is held after all.
    pub(crate) async fn not_held(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Error>> {
        match self.owned(session, claim).await? {
            Some(row) if row.is_held()? => Ok(None),
            Some(_) => Ok(Some(Error::claim_lost())),
            None => self.lost(session, claim).await,
        }
    }

    pub(crate) async fn get(&self, session: &mut Session<'_>, key: &Key) -> Result<Option<Record>> {
        self.ready(session).await?;
        let found = self
            .one(session, statements::get(key), Access::Read)
            .await?;
        found.map_or(Ok(None), Row::record)
    }
}

/// Gives the error of a later statement an unknown effect if an earlier one was a write.
pub(crate) fn since(error: Error, sent: Access) -> Error {
    match sent {
        Access::Read => error,
        Access::Write => error.with_effect(Effect::Unknown),
    }
}

pub(crate) fn changed_too_often() -> Error {
    Error::new(
        ErrorKind::Contention,
        Effect::None,
        format!("the record changed {MAX_RETRIES} times meanwhile; ask again"),
    )
}

fn renewed(claim: &Claim, row: &Row) -> Result<Claim> {
    Ok(Claim::new(
        claim.key().clone(),
        claim.token(),
        claim.attempt(),
        claim.attempts(),
        row.instant("renewed_at")?,
        row.instant("lease_ends_at")?,
    ))
}
