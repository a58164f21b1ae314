//! Reads what only this store's statements return.

use idem_core::backend::StoredRecord;
use idem_core::{ClaimOutcome, ClaimRequest, FailedPolicy, Record, Result};
use idem_sql::cells::Columns;

/// Microseconds from the Unix epoch to 2000-01-01, where the server's `timestamptz` begins
/// (<https://www.postgresql.org/docs/current/datatype-datetime.html>).
const YEAR_2000: i64 = 946_684_800_000_000;

/// Returns the record as a plain read returns it: with the clock in the server's own form, which
/// spares the server the arithmetic.
fn read<'r>(row: Columns<'r>) -> Result<StoredRecord<'r>> {
    row.stored(row.now()?.saturating_add(YEAR_2000))
}

/// Returns scope, operation and id, in the columns from this index on.
pub(crate) fn key<'r>(row: Columns<'r>, index: usize) -> Result<(&'r str, &'r str, &'r str)> {
    Ok((row.text(index)?, row.text(index + 1)?, row.text(index + 2)?))
}

/// Returns the outcome of a claim whose plain read found a live record; `None` where the claim may
/// have to acquire or fail it. The columns are those of a claim's answer, except that the first
/// says whether this very attempt holds the record.
pub(crate) fn lost(row: Columns<'_>, request: &ClaimRequest) -> Result<Option<ClaimOutcome>> {
    let stored = read(row)?;
    let same = stored.fingerprint == &request.fingerprint().to_bytes()[..];
    let touches = stored.expires_at <= stored.now
        || match stored.state {
            StoredRecord::IN_FLIGHT => row.is_won()? || stored.lease_ends_at <= stored.now,
            StoredRecord::FAILED => same && request.on_failed() == FailedPolicy::Retry,
            _ => false,
        };
    if touches {
        return Ok(None);
    }
    stored.loses(request).map(Some)
}

/// Returns the record, if it has not expired.
pub(crate) fn live_record(row: Columns<'_>) -> Result<Option<Record>> {
    let stored = read(row)?;
    if stored.expires_at <= stored.now {
        return Ok(None);
    }
    stored.record().map(Some)
}
