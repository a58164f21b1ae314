//! Watermarks.

use std::time::Duration;

use idem_core::backend::check;
use idem_core::{Advance, Error, ErrorKind, Key, Result};
use idem_sql::cells::Columns;
use idem_sql::operations::Operations as _;
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{MAX_RETRIES, mark_was_raised, not_advanced};

use crate::connection::End;
use crate::operations::Operations;
use crate::session::Session;

impl Operations {
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
        let locked = &self.locked_marks;
        for _ in 0..MAX_RETRIES {
            let query = self.sql.advance.with(&values)?;
            let rows = self.rows_in_turn(session, locked, source, query, End::Commit);
            let rows = match rows.await {
                Err(error) if error.kind() == ErrorKind::Contention && session.commits_each() => {
                    return self.stands(session, source, version, error).await;
                }
                rows => rows?,
            };
            let Some(row) = rows.first() else {
                tokio::task::yield_now().await;
                continue;
            };
            let held = Columns::of(row).optional_number(0)?;
            return Ok(held.map_or(Advance::Advanced, |current| {
                not_advanced(current.cast_unsigned(), version)
            }));
        }
        Err(mark_was_raised())
    }

    /// Answers from the committed mark, although an open transaction has locked it; otherwise
    /// returns this error.
    async fn stands(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        version: u64,
        error: Error,
    ) -> Result<Advance> {
        match self.watermark(session, source).await? {
            Some(current) if current >= version => Ok(not_advanced(current, version)),
            _ => Err(error),
        }
    }
}
