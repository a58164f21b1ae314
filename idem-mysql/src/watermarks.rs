//! Watermarks.

use std::time::Duration;

use idem_core::backend::check;
use idem_core::{Advance, Key, Result};
use idem_sql::cells::{Columns, Row};
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{MAX_RETRIES, mark_was_raised, not_advanced};

use crate::error::Access;
use crate::operations::Operations;
use crate::session::Session;

/// A mark, as the store read it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    version: u64,
    pub(crate) is_live: bool,
}

impl Mark {
    pub(crate) fn of(row: &Row) -> Result<Self> {
        let row = Columns::of(row);
        Ok(Self {
            version: row.number(0)?.cast_unsigned(),
            is_live: row.number(1)? != 0,
        })
    }
}

impl Operations {
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
        rows.first().map(Mark::of).transpose()
    }
}
