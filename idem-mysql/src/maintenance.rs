//! Deletes expired records and fails abandoned ones, in transactions of a few hundred rows: they
//! lock the rows, skip rows that others have locked, then change them.

use idem_core::backend::encode_failure;
use idem_core::{Effect, Error, ErrorKind, Failure, Result};
use idem_sql::cells::{Columns, Row};
use idem_sql::executor::Statement;
use idem_sql::maintenance::Task;
use idem_sql::parameters::{Parameter, Value, Values};

use crate::error::Access;
use crate::operations::Operations;
use crate::session::{MAX_RACES, Session};
use crate::statements::{MAX_ITEMS, Repeated, filled_up};

/// Scope, operation and id of a row.
type StoredKey = [Vec<u8>; 3];

impl Operations {
    pub(crate) async fn maintain(
        &self,
        session: &mut Session<'_>,
        task: Task,
        limit: u32,
    ) -> Result<u64> {
        let sql = self.sql(session).await?;
        let (which, change, result) = match task {
            Task::DeleteExpired => (&sql.expired, &sql.delete_expired, None),
            Task::FailAbandoned => {
                let failure = encode_failure(&Failure::abandoned())?;
                (&sql.abandoned, &sql.fail_abandoned, Some(failure))
            }
            Task::DeleteExpiredWatermarks => {
                let change = &sql.delete_expired_watermarks;
                (&sql.expired_watermarks, change, None)
            }
        };
        self.in_rounds(session, limit, which, change, result.as_deref())
            .await
    }

    async fn in_rounds(
        &self,
        session: &mut Session<'_>,
        limit: u32,
        which: &Statement,
        change: &Repeated,
        result: Option<&[u8]>,
    ) -> Result<u64> {
        let mut left = limit as usize;
        let mut total = 0;
        let mut races = 0;
        while left > 0 {
            let size = left.min(MAX_ITEMS);
            let (found, done) = match round(session, which, change, size, result).await {
                Ok(round) => round,
                Err(error) if error.kind() == ErrorKind::Contention && races < MAX_RACES => {
                    races += 1;
                    let rolled_back = session.rollback().await;
                    rolled_back.map_err(|error| after(total, error))?;
                    continue;
                }
                Err(error) => {
                    session.undo().await;
                    return Err(after(total, error));
                }
            };
            total += done;
            left -= found;
            if found < size {
                break;
            }
        }
        Ok(total)
    }
}

/// Adjusts the error of a round; the changes of earlier rounds are committed.
fn after(total: u64, error: Error) -> Error {
    match total {
        0 => error,
        _ => error.with_effect(Effect::Unknown),
    }
}

/// Runs one transaction; returns how many rows it has found and how many it has changed.
async fn round(
    session: &mut Session<'_>,
    which: &Statement,
    change: &Repeated,
    size: usize,
    result: Option<&[u8]>,
) -> Result<(usize, u64)> {
    session.begin().await?;
    let keys = locked(session, which, size).await?;
    let done = if keys.is_empty() {
        0
    } else {
        changed(session, change, &keys, result).await?
    };
    session.commit().await?;
    Ok((keys.len(), done))
}

async fn locked(
    session: &mut Session<'_>,
    which: &Statement,
    size: usize,
) -> Result<Vec<StoredKey>> {
    let values = Values::default().with(Parameter::Limit, size as i64);
    let rows = session.rows(&which.with(&values)?, Access::Write).await?;
    let part = |row: &Row, index| Columns::of(row).bytes(index).map(<[u8]>::to_vec);
    rows.iter()
        .map(|row| Ok([part(row, 0)?, part(row, 1)?, part(row, 2)?]))
        .collect()
}

async fn changed(
    session: &mut Session<'_>,
    change: &Repeated,
    keys: &[StoredKey],
    result: Option<&[u8]>,
) -> Result<u64> {
    let (statement, size) = change.at_least(keys.len());
    let mut values: Vec<_> = result.map(Value::from).into_iter().collect();
    for part in filled_up(keys, size).flatten() {
        values.push(Value::from(&part[..]));
    }
    session.write(&statement.bound(values)).await
}
