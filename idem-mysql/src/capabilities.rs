//! Checkpoints and watermarks.

use std::time::Duration;

use idem_core::backend::check;
use idem_core::{Advance, Checkpoint, Claim, Error, Key, Result};
use idem_sql::cells::Columns;
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{MAX_RETRIES, mark_was_raised, not_advanced, stored_checkpoint};

use crate::error::Access;
use crate::operations::Operations;
use crate::session::Session;

/// A mark, as the store read it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    version: u64,
    is_live: bool,
}

impl Operations {
    pub(crate) async fn checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let stored = checkpoint.encode(&self.config.limits())?;
        let sql = self.sql(session).await?;
        let values = Values::of_claim(claim).with(Parameter::Result, &stored[..]);
        let statement = sql.checkpoint.with(&values)?;
        if self.write_locked(session, claim.key(), &statement).await? > 0 {
            return Ok(());
        }
        self.last_checkpoint(session, claim).await.map(drop)
    }

    pub(crate) async fn last_checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Checkpoint>> {
        let sql = self.sql(session).await?;
        let statement = if session.is_transaction() {
            &sql.last_checkpoint_latest
        } else {
            &sql.last_checkpoint
        };
        let values = Values::of_claim(claim);
        let rows = session
            .rows(&statement.with(&values)?, Access::Read)
            .await?;
        let row = rows.first().ok_or_else(Error::claim_lost)?;
        stored_checkpoint(Columns::of(row).optional_bytes(0)?)
    }

    /// Reads first, because a stale version or a repetition is then answered without a write. The
    /// count of the raising statement proves whether this call raised the mark.
    pub(crate) async fn advance(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let (wanted, retention) = (check::version(version)?, check::retention(retention)?);
        let sql = self.sql(session).await?;
        let values = Values::of_key(source)
            .with(Parameter::Version, wanted)
            .with(Parameter::Retention, retention);
        let first = sql.first_mark.with(&values)?;
        let first_plain = sql.first_mark_plain.with(&values)?;
        let raise = sql.raise.with(&values)?;
        for ask in 0..MAX_RETRIES {
            let mark = self.mark(session, source, ask > 0).await?;
            let is_there = mark.is_some();
            match mark {
                Some(mark) if mark.is_live && mark.version >= version => {
                    return Ok(not_advanced(mark.version, version));
                }
                Some(_) | None => {}
            }
            let permit = self.permit(&self.locked_marks, session, source).await?;
            let Some(permit) = permit else { continue };
            let raised = match (is_there, session.is_transaction()) {
                (true, _) => session.write(&raise).await,
                (false, true) => self.insert_in(session, &first_plain).await,
                (false, false) => {
                    self.without_gaps(session).await?;
                    session.write(&first).await
                }
            };
            if permit.settle(source, raised)? > 0 {
                return Ok(Advance::Advanced);
            }
        }
        Err(mark_was_raised())
    }

    async fn mark(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        has_written: bool,
    ) -> Result<Option<Mark>> {
        let sql = self.sql(session).await?;
        let statement = if has_written && session.is_transaction() {
            &sql.mark_latest
        } else {
            &sql.mark
        };
        let values = Values::of_key(source);
        let rows = session
            .rows(&statement.with(&values)?, Access::Read)
            .await?;
        let Some(row) = rows.first().map(Columns::of) else {
            return Ok(None);
        };
        Ok(Some(Mark {
            version: row.number(0)?.cast_unsigned(),
            is_live: row.number(1)? != 0,
        }))
    }

    pub(crate) async fn watermark(
        &self,
        session: &mut Session<'_>,
        source: &Key,
    ) -> Result<Option<u64>> {
        let mark = self.mark(session, source, false).await?;
        Ok(mark.filter(|mark| mark.is_live).map(|mark| mark.version))
    }
}
