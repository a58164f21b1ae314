//! Answers that rest on an earlier commit, which synchronous standbys may lack: see
//! [`Replays`](crate::Replays).

use idem_core::backend::StoredRecord;
use idem_core::{Claim, ClaimOutcome, Effect, Error, ErrorKind, FencingToken, Key, Record, Result};
use idem_sql::parameters::{Parameter, Values};

use crate::error::Access;
use crate::operations::Operations;
use crate::query::Query;
use crate::session::Session;

/// The state of a record that has any.
const ANY: i64 = 0;

impl Operations {
    /// Returns the outcome when standbys have what it rests on, if they must.
    pub(crate) async fn replicated(
        &self,
        session: &mut Session<'_>,
        key: &Key,
        outcome: ClaimOutcome,
    ) -> Result<ClaimOutcome> {
        let (token, state) = match &outcome {
            ClaimOutcome::Completed(record) => (record.info.token, StoredRecord::COMPLETED),
            ClaimOutcome::Failed(record) => (record.info.token, StoredRecord::FAILED),
            ClaimOutcome::Conflict(conflict) => (conflict.info.token, ANY),
            // A claim waits for its own commit. Nobody acts on a key in flight for good.
            ClaimOutcome::Acquired(_) | ClaimOutcome::InFlight(_) => return Ok(outcome),
        };
        // The statement before may have failed an abandoned record.
        let sent = Access::Write;
        self.record_is_replicated(session, key, token, state, sent)
            .await?;
        Ok(outcome)
    }

    /// Returns the record that was read, likewise.
    pub(crate) async fn replicated_record(
        &self,
        session: &mut Session<'_>,
        key: &Key,
        record: Option<Record>,
    ) -> Result<Option<Record>> {
        let (token, state) = match &record {
            Some(Record::Completed(record)) => (record.info.token, StoredRecord::COMPLETED),
            Some(Record::Failed(record)) => (record.info.token, StoredRecord::FAILED),
            Some(Record::InFlight(_)) | None => return Ok(record),
        };
        self.record_is_replicated(session, key, token, state, Access::Read)
            .await?;
        Ok(record)
    }

    /// Waits until standbys have the claim's record as its holder has met it, if they must.
    pub(crate) async fn replicated_step(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        state: i64,
    ) -> Result<()> {
        let (key, token) = (claim.key(), claim.token());
        self.record_is_replicated(session, key, token, state, Access::Write)
            .await
    }

    async fn record_is_replicated(
        &self,
        session: &mut Session<'_>,
        key: &Key,
        token: FencingToken,
        state: i64,
        sent: Access,
    ) -> Result<()> {
        if !self.config.waits_for_standbys() {
            return Ok(());
        }
        let values = Values::of_key(key)
            .with(Parameter::Token, token.as_i64())
            .with(Parameter::Seen, state);
        let query = self.sql.replicated.with(&values)?;
        waited(session, query, sent).await
    }

    /// Waits until standbys have a mark of at least this version, if they must.
    pub(crate) async fn mark_is_replicated(
        &self,
        session: &mut Session<'_>,
        values: &Values<'_>,
    ) -> Result<()> {
        if !self.config.waits_for_standbys() {
            return Ok(());
        }
        let query = self.sql.replicated_mark.with(values)?;
        waited(session, query, Access::Write).await
    }
}

async fn waited(session: &mut Session<'_>, query: Query<'_>, sent: Access) -> Result<()> {
    match session.rows(query, sent).await?.is_empty() {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::Contention,
            Effect::Unknown,
            "the key changed hands while the answer waited for standbys; ask again",
        )),
    }
}
