//! The operations, by themselves or in a caller's transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::{
    Bytes, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Key, Record,
    Response, Result, StoredRecord, Traffic, check, encode_failure,
};
use mongodb::bson::Document;
use mongodb::options::{CollectionOptions, ReadPreference, SelectionCriteria};
use mongodb::{Client, Collection, Database};

use crate::config::Config;
use crate::error::Sent;
use crate::row::Row;
use crate::session::{Changed, MAX_ASKS, Session, pause};
use crate::statements::{self, Asked};

/// What all operations need beside a session.
pub(crate) struct Operations {
    pub(crate) config: Config,
    pub(crate) collection: Collection<Document>,
    /// The watermarks, with the same concerns.
    pub(crate) watermarks: Collection<Document>,
    pub(crate) database: Database,
    /// Whether the collection was seen to be migrated. MongoDB would create a missing one with the first write, without
    /// its indexes.
    pub(crate) is_ready: AtomicBool,
    /// The same of the watermarks', which came later: who uses none needs none.
    pub(crate) has_watermarks: AtomicBool,
    /// Whether the deployment was seen to have transactions.
    pub(crate) has_transactions: AtomicBool,
    pub(crate) traffic: Traffic,
}

/// What a claim is sealed with, in stored form.
#[derive(Debug)]
pub(crate) struct Sealing {
    state: i64,
    result: Bytes,
    retention: i64,
}

/// The database of a client whose URL names none.
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
        Self {
            collection: database.collection_with_options(config.collection(), options.clone()),
            watermarks: database.collection_with_options(&config.watermarks(), options),
            database,
            config,
            is_ready: AtomicBool::new(false),
            has_watermarks: AtomicBool::new(false),
            has_transactions: AtomicBool::new(false),
            traffic: Traffic::expecting_records(),
        }
    }

    /// Refuses to work on a collection that was not migrated; asks the server once.
    pub(crate) async fn ready(&self, session: &Session<'_>) -> Result<()> {
        if !self.is_ready.load(Ordering::Relaxed) {
            self.verify_records(session).await?;
            self.is_ready.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Where keys are mostly fresh, the update that decides comes first. Otherwise the look does, because a duplicate is then
    /// answered without a write, however many there are.
    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let asked = Asked::new(request, check::claim(request, &self.config.limits())?);
        self.ready(session).await?;
        let seen = match self.traffic.expects_record(request.key()) {
            true => self.look(session, &asked, Sent::Harmless).await?,
            false => None,
        };
        self.claim_from(session, &asked, seen).await
    }

    /// Claims from what was seen, and learns from what it comes to.
    pub(crate) async fn claim_from(
        &self,
        session: &mut Session<'_>,
        asked: &Asked<'_>,
        seen: Option<Row>,
    ) -> Result<ClaimOutcome> {
        let outcome = self.claim_seen(session, asked, seen).await?;
        let acquired = matches!(outcome, ClaimOutcome::Acquired(_));
        self.traffic.learn(asked.request.key(), !acquired);
        Ok(outcome)
    }

    /// From what a look has seen, or, where it was not looked, from nothing. What it has written is proven by the document
    /// that carries this attempt's id.
    async fn claim_seen(
        &self,
        session: &mut Session<'_>,
        asked: &Asked<'_>,
        mut seen: Option<Row>,
    ) -> Result<ClaimOutcome> {
        let failure = encode_failure(&Failure::abandoned())?;
        let mut sent = Sent::Harmless;
        for ask in 1..=MAX_ASKS {
            if let Some(row) = seen
                && row.is_held_against(asked)?
            {
                return row.loses(asked);
            }
            let filter = statements::key_filter(asked.request.key());
            let update = statements::claim(asked, &failure);
            match session
                .change(&self.collection, filter, update, true)
                .await?
            {
                Changed::Document(document) => {
                    if let Some(outcome) = Row::new(document).decided(asked, &failure)? {
                        return Ok(outcome);
                    }
                }
                Changed::LostRace => pause(ask).await,
                Changed::Nothing => {
                    sent = Sent::Write;
                    pause(ask).await;
                }
            }
            seen = self.look(session, asked, sent).await?;
        }
        let effect = match sent {
            Sent::Harmless => Effect::None,
            Sent::Write => Effect::Unknown,
        };
        Err(Error::new(
            ErrorKind::Contention,
            effect,
            format!("the key changed hands {MAX_ASKS} times while it was claimed; ask again"),
        ))
    }

    pub(crate) async fn look(
        &self,
        session: &mut Session<'_>,
        asked: &Asked<'_>,
        sent: Sent,
    ) -> Result<Option<Row>> {
        let look = statements::look(asked.request.key(), &asked.fingerprint);
        self.one(session, look, sent).await
    }

    pub(crate) async fn one(
        &self,
        session: &mut Session<'_>,
        pipeline: Vec<Document>,
        sent: Sent,
    ) -> Result<Option<Row>> {
        let found = session.read(&self.collection, pipeline, sent).await?;
        Ok(found.into_iter().next().map(Row::new))
    }

    pub(crate) fn response(&self, response: &Response, retention: Duration) -> Result<Sealing> {
        Ok(Sealing {
            state: StoredRecord::COMPLETED,
            retention: check::retention(retention)?,
            result: check::response(response, &self.config.limits())?,
        })
    }

    pub(crate) fn failure(&self, failure: &Failure, retention: Duration) -> Result<Sealing> {
        Ok(Sealing {
            state: StoredRecord::FAILED,
            retention: check::retention(retention)?,
            result: check::failure(failure, &self.config.limits())?,
        })
    }

    pub(crate) async fn seal(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        sealing: &Sealing,
    ) -> Result<()> {
        self.ready(session).await?;
        let update = statements::seal(sealing.state, &sealing.result, sealing.retention);
        if self.update_held(session, claim, update).await? {
            return Ok(());
        }
        let Some(mut row) = self.owned(session, claim).await? else {
            return Err(Error::claim_lost());
        };
        match row.state()? {
            _ if !row.is_live()? => Err(Error::claim_lost()),
            state if state == sealing.state => match row.take_result()? {
                Some(result) if result == sealing.result => Ok(()),
                _ => Err(Error::already_sealed()),
            },
            StoredRecord::COMPLETED | StoredRecord::FAILED => Err(Error::already_sealed()),
            _ => Err(Error::claim_lost()),
        }
    }

    pub(crate) async fn release(&self, session: &mut Session<'_>, claim: &Claim) -> Result<()> {
        self.ready(session).await?;
        let update = statements::release();
        if self.update_held(session, claim, update).await? {
            return Ok(());
        }
        match self.owned(session, claim).await? {
            Some(row) if row.state()? == StoredRecord::RELEASED => Ok(()),
            _ => Err(Error::claim_lost()),
        }
    }

    pub(crate) async fn update_held(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        update: Vec<Document>,
    ) -> Result<bool> {
        let filter = statements::held_filter(claim);
        session.update(&self.collection, filter, update).await
    }

    /// The claim's own record, when it is still the latest acquisition.
    pub(crate) async fn owned(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Row>> {
        self.one(session, statements::owned(claim), Sent::Harmless)
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
        for ask in 1..=MAX_ASKS {
            let filter = statements::held_filter(claim);
            let update = statements::renew(lease);
            match session
                .change(&self.collection, filter, update, false)
                .await?
            {
                Changed::Document(document) => return renewed(claim, &Row::new(document)),
                Changed::Nothing => return Err(Error::claim_lost()),
                Changed::LostRace => pause(ask).await,
            }
        }
        Err(Error::new(
            ErrorKind::Contention,
            Effect::None,
            format!("the record changed {MAX_ASKS} times while it was renewed; ask again"),
        ))
    }

    pub(crate) async fn get(&self, session: &mut Session<'_>, key: &Key) -> Result<Option<Record>> {
        self.ready(session).await?;
        let found = self
            .one(session, statements::get(key), Sent::Harmless)
            .await?;
        found.map_or(Ok(None), Row::record)
    }
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
