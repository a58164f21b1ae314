//! Watermarks.

use std::time::Duration;

use idem_core::backend::check;
use idem_core::{Advance, Key, Result};
use idem_sql::cells::Columns;
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{MAX_RETRIES, mark_was_raised, not_advanced};

use crate::error::is_lost_race;
use crate::operations::Operations;
use crate::session::{Query, Session};

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
        let lookup = Query::of(&self.sql.lookup_at_mark, &values)?;
        let query = Query::of(&self.sql.advance, &values)?;
        for _ in 0..MAX_RETRIES {
            let locked = &self.locked_marks;
            let asked = self.look_or_in_turn(session, locked, source, &lookup, &query);
            let rows = match asked.await {
                Err(error) if is_lost_race(&error) && session.repeats() => continue,
                rows => rows?,
            };
            let Some(row) = rows.first().map(Columns::of) else {
                tokio::task::yield_now().await;
                continue;
            };
            if row.number(0)? == 1 {
                return Ok(Advance::Advanced);
            }
            return Ok(not_advanced(row.number(1)?.cast_unsigned(), version));
        }
        Err(mark_was_raised())
    }
}
