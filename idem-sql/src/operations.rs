//! [`Operations`]: what all stores do in the same way.

use std::time::Duration;

use idem_core::backend::decision::is_abandoned;
use idem_core::backend::{FinalResult, check, encode_failure};
use idem_core::{
    Advance, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Error, Failure, Key, Limits, Record,
    Result,
};

use crate::cells::{Columns, Row};
use crate::parameters::{Parameter, Value, Values};
use crate::step::{MAX_RETRIES, Step, mark_was_raised, renewed, stored_checkpoint};

/// A statement that writes one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Completes or fails the record that the claim holds.
    Seal,
    /// Gives that record up.
    Release,
    /// Extends its lease; returns the lease's end and the clock.
    Renew,
    /// Stores a checkpoint in it.
    Checkpoint,
    /// Fails the stale record with this token; returns the columns of a record.
    Abandon,
    /// Fails or releases the live record with this token and this state, whose attempt has no say.
    Force,
    /// Replaces result and metadata of the live record with this token and this sealed state.
    Rewrite,
}

/// A statement that reads one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// State and result of the claim's own record, when it is still the latest acquisition.
    Owned,
    /// The record.
    Record,
    /// The record, expired or not, with no more of its result than a list needs: see
    /// [`list`](Operations::list).
    Summary,
    /// The checkpoint of the record that the claim holds.
    LastCheckpoint,
    /// The version of a mark.
    Watermark,
}

/// The operations that all stores do in the same way, over the two that each does in its own:
/// [`write`](Self::write) and [`read`](Self::read) follow its rules for locks and connections.
pub trait Operations: Sync {
    /// Sends statements on a connection of the store, or in a caller's transaction.
    type Session<'s>: Send;

    /// Returns the limits.
    fn limits(&self) -> Limits;

    /// Returns the topic of the notification that the key has changed. Default: none.
    fn topic(&self, _key: &Key) -> Option<String> {
        None
    }

    /// Sends a statement that writes a record; `None` where it has written nothing.
    fn write(
        &self,
        session: &mut Self::Session<'_>,
        key: &Key,
        what: Write,
        values: &Values<'_>,
    ) -> impl Future<Output = Result<Option<Row>>> + Send;

    /// Sends a read.
    fn read(
        &self,
        session: &mut Self::Session<'_>,
        key: &Key,
        what: Read,
        values: &Values<'_>,
    ) -> impl Future<Output = Result<Option<Row>>> + Send;

    /// Reads rows behind the key of `values`, in the order of the primary key: the columns of a
    /// record, with the first [`LISTED_RESULT_BYTES`](idem_core::backend::LISTED_RESULT_BYTES) of
    /// the result unless the record is completed, then how many bytes the result has, scope,
    /// operation and id.
    fn list(
        &self,
        session: &mut Self::Session<'_>,
        values: &Values<'_>,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send;

    /// Decodes the answer to [`Read::Record`]; `None` where the record has expired.
    ///
    /// # Errors
    ///
    /// `Corrupt` when a column cannot be decoded.
    fn record(row: &Row) -> Result<Option<Record>> {
        Columns::of(row).record().map(Some)
    }

    /// Runs a step of the claim's holder. Where the statement writes nothing, returns the state of
    /// the claim's record, or that the claim is lost.
    fn step(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
        what: Write,
        values: &Values<'_>,
    ) -> impl Future<Output = Result<Step<Row>>> + Send {
        async move {
            match self.write(session, claim.key(), what, values).await? {
                Some(row) => Ok(Step::Done(row)),
                None => Step::met(self.owned(session, claim).await?),
            }
        }
    }

    /// Tries to raise a mark to `version`; `None` where another caller has changed it meanwhile.
    /// `tries` came before.
    fn raise(
        &self,
        session: &mut Self::Session<'_>,
        source: &Key,
        version: u64,
        values: &Values<'_>,
        tries: u32,
    ) -> impl Future<Output = Result<Option<Advance>>> + Send;

    /// Returns state and result of the claim's own record, when it is still the latest acquisition.
    fn owned(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
    ) -> impl Future<Output = Result<Option<(i64, Option<Vec<u8>>)>>> + Send {
        async move {
            let values = Values::of_claim(claim);
            let row = self
                .read(session, claim.key(), Read::Owned, &values)
                .await?;
            let Some(row) = row.as_ref().map(Columns::of) else {
                return Ok(None);
            };
            let result = row.optional_bytes(1)?;
            Ok(Some((row.number(0)?, result.map(<[u8]>::to_vec))))
        }
    }

    /// Completes, fails or releases.
    fn finish(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
        result: &FinalResult,
    ) -> impl Future<Output = Result<()>> + Send {
        async move {
            let what = match result.is_release() {
                true => Write::Release,
                false => Write::Seal,
            };
            let topic = self.topic(claim.key());
            let values = Values::of_claim(claim)
                .with_result(result)
                .with(Parameter::Topic, Value::OptionalText(topic.as_deref()));
            let step = self.step(session, claim, what, &values).await?;
            step.finished(result)
        }
    }

    /// Extends the lease.
    fn renew(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
        lease: Duration,
    ) -> impl Future<Output = Result<Claim>> + Send {
        async move {
            let values = Values::of_claim(claim).with(Parameter::Lease, check::lease(lease)?);
            let step = self.step(session, claim, Write::Renew, &values).await?;
            let row = step.row()?;
            let row = Columns::of(&row);
            Ok(renewed(claim, row.number(1)?, row.number(0)?))
        }
    }

    /// Reads the record.
    fn get(
        &self,
        session: &mut Self::Session<'_>,
        key: &Key,
    ) -> impl Future<Output = Result<Option<Record>>> + Send {
        async move {
            let values = Values::of_key(key);
            let row = self.read(session, key, Read::Record, &values).await?;
            row.as_ref().map_or(Ok(None), Self::record)
        }
    }

    /// Stores a checkpoint.
    fn checkpoint(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> impl Future<Output = Result<()>> + Send {
        async move {
            let stored = checkpoint.encode(&self.limits())?;
            let values = Values::of_claim(claim).with(Parameter::Result, &stored[..]);
            let step = self.step(session, claim, Write::Checkpoint, &values);
            step.await?.row().map(drop)
        }
    }

    /// Reads the last checkpoint.
    fn last_checkpoint(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
    ) -> impl Future<Output = Result<Option<Checkpoint>>> + Send {
        async move {
            let values = Values::of_claim(claim);
            let row = self.read(session, claim.key(), Read::LastCheckpoint, &values);
            let row = row.await?.ok_or_else(Error::claim_lost)?;
            stored_checkpoint(Columns::of(&row).optional_bytes(0)?)
        }
    }

    /// Raises a mark.
    fn advance(
        &self,
        session: &mut Self::Session<'_>,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> impl Future<Output = Result<Advance>> + Send {
        async move {
            let values = Values::of_key(source)
                .with(Parameter::Version, check::version(version)?)
                .with(Parameter::Retention, check::retention(retention)?);
            for tries in 0..MAX_RETRIES {
                let raised = self.raise(session, source, version, &values, tries);
                if let Some(advance) = raised.await? {
                    return Ok(advance);
                }
                tokio::task::yield_now().await;
            }
            Err(mark_was_raised())
        }
    }

    /// Reads a mark.
    fn watermark(
        &self,
        session: &mut Self::Session<'_>,
        source: &Key,
    ) -> impl Future<Output = Result<Option<u64>>> + Send {
        async move {
            let values = Values::of_key(source);
            let row = self.read(session, source, Read::Watermark, &values).await?;
            let mark = row.map(|row| Columns::of(&row).number(0)).transpose()?;
            Ok(mark.map(i64::cast_unsigned))
        }
    }

    /// Answers a claim from the row of the statement that decides it. A stale record that must not
    /// be taken over is failed first; `None` when it has changed since.
    fn claimed(
        &self,
        session: &mut Self::Session<'_>,
        request: &ClaimRequest,
        row: &Row,
    ) -> impl Future<Output = Result<Option<ClaimOutcome>>> + Send {
        async move {
            let seen = Columns::of(row);
            let outcome = seen.outcome(request)?;
            if !is_abandoned(&outcome, request) {
                return Ok(Some(outcome));
            }
            let (key, failure) = (request.key(), encode_failure(&Failure::abandoned())?);
            let values = Values::of_key(key)
                .with(Parameter::Token, seen.token()?.as_i64())
                .with(Parameter::Result, &failure[..]);
            let failed = self.write(session, key, Write::Abandon, &values).await?;
            let outcome = |row: Row| Columns::of(&row).outcome(request);
            failed.map(outcome).transpose()
        }
    }
}
