//! Watermarks.

use std::time::Duration;

use idem_core::backend::check;
use idem_core::{Advance, Key, Result};
use idem_sql::cells::Columns;
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{MAX_RETRIES, mark_was_raised, not_advanced};

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
}
