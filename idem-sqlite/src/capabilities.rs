//! Checkpoints and watermarks.

use std::time::Duration;

use idem_core::backend::check;
use idem_core::{Advance, Checkpoint, Claim, Error, Key, Result};
use idem_sql::cells::{Columns, Row};
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{MAX_RETRIES, mark_was_raised, not_advanced, stored_checkpoint};

use crate::operations::Operations;
use crate::session::Session;

impl Operations {
    pub(crate) async fn checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let stored = checkpoint.encode(&self.config.limits())?;
        let values = Values::of_claim(claim).with(Parameter::Result, &stored[..]);
        let rows = session.write(self.sql.checkpoint.with(&values)?).await?;
        rows.first().map(drop).ok_or_else(Error::claim_lost)
    }

    pub(crate) async fn last_checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Checkpoint>> {
        let values = Values::of_claim(claim);
        let row = session.read(self.sql.last_checkpoint.with(&values)?);
        let row = row.await?.ok_or_else(Error::claim_lost)?;
        stored_checkpoint(Columns::of(&row).optional_bytes(0)?)
    }

    pub(crate) async fn advance(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let (wanted, retention) = (check::version(version)?, check::retention(retention)?);
        let values = Values::of_key(source)
            .with(Parameter::Version, wanted)
            .with(Parameter::Retention, retention);
        for _ in 0..MAX_RETRIES {
            if let Some(row) = session.read(self.sql.raised.with(&values)?).await? {
                let current = Columns::of(&row).number(0)?;
                return Ok(not_advanced(current.cast_unsigned(), version));
            }
            let raise = self.sql.raise.with(&values)?;
            if !session.write(raise).await?.is_empty() {
                return Ok(Advance::Advanced);
            }
        }
        Err(mark_was_raised())
    }

    pub(crate) async fn watermark(
        &self,
        session: &mut Session<'_>,
        source: &Key,
    ) -> Result<Option<u64>> {
        let values = Values::of_key(source);
        let row = session.read(self.sql.watermark.with(&values)?).await?;
        let mark = row.map(|row: Row| Columns::of(&row).number(0));
        let mark = mark.transpose()?;
        Ok(mark.map(i64::cast_unsigned))
    }
}
