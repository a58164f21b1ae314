//! The statements, each with the argument why it is safe.
//!
//! SQLite has one writer at a time: a statement that writes holds the write lock from its start to
//! its commit, so it sees the latest state, which cannot change meanwhile. Reads run beside it in
//! WAL mode and see the latest commit. The clock is the machine's, in milliseconds. SQL reads it
//! once per statement after the wait for the lock (`unixepoch('now')` is stable within one
//! `sqlite3_step()`, <https://www.sqlite.org/lang_datefunc.html>).
//!
//! Rows such as C1, S2, R3 and N2 are those of the tables in `idem_core::backend::decision`. The
//! conformance suite takes each of them to the store.

use idem_sql::parameters::Parameter;

/// Reads the clock in microseconds.
macro_rules! now {
    () => {
        "(CAST(ROUND(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000)"
    };
}

/// The columns of a record, in the order in which they are read.
macro_rules! columns {
    ($won:literal, $result:literal) => {
        concat!(
            $won,
            ", state, token, attempts, fingerprint, created_at, expires_at, lease_ends_at,
    sweep_at IS NOT NULL, sealed_at, metadata, ",
            $result,
            ", ",
            now!()
        )
    };
}

macro_rules! key {
    () => {
        "scope = {scope} AND operation = {operation} AND id = {id}"
    };
}

/// The condition that the claim holds the key.
macro_rules! owned {
    () => {
        concat!(key!(), " AND token = {token} AND attempt_id = {attempt_id}")
    };
}

mod capabilities;

pub(crate) use capabilities::*;

/// Reads a live record that this claim must not touch: the answer to a duplicate, without the write
/// lock. An empty answer proves nothing; [`ACQUIRE`] decides, before or after this read.
///
/// Rows C2, C4, C6, C8 and C9; [`ABANDON`] does what C6 says.
pub(crate) const HELD: &str = concat!(
    "SELECT ",
    columns!(
        "0",
        "CASE WHEN fingerprint = {fingerprint} AND state <> 0 THEN result END"
    ),
    " FROM {table}
WHERE ",
    key!(),
    " AND expires_at > ",
    now!(),
    " AND NOT (fingerprint = {fingerprint} AND (
    state = 0 AND attempt_id = {attempt_id}
    OR state = 0 AND lease_ends_at <= ",
    now!(),
    " AND sweep_at IS NULL AND NOT {fails_when_stale}
    OR state = 2 AND {retries_failed}))",
);

/// `excluded.created_at` is the clock.
///
/// Runs under the write lock, so the row that it judges is the latest. No row comes back, and
/// nothing is written, when there is a live record that this claim must not touch: [`HELD`] sees
/// it, unless it is gone by then.
///
/// `result` holds the last checkpoint while the record is in flight. An acquisition of a live
/// record in flight, by a takeover or by the attempt itself, continues from that checkpoint; any
/// other acquisition begins without one.
///
/// Its condition is rows C1, C3, C5 and C7.
pub(crate) const ACQUIRE: &str = concat!(
    "INSERT INTO {table} AS r (token, created_at, lease_ends_at, expires_at, purge_at, sweep_at, attempts,
    state, scope, operation, id, fingerprint, attempt_id, metadata)
SELECT now, now, now + {lease}, now + {lease} + {retention}, now + {lease} + {retention}, CASE WHEN {fails_when_stale} THEN now + {lease} END, 1,
    0, {scope}, {operation}, {id}, {fingerprint}, {attempt_id}, {metadata}
FROM (SELECT ",
    now!(),
    " AS now) WHERE true
ON CONFLICT (scope, operation, id) DO UPDATE SET
    token = CASE
        WHEN r.expires_at > excluded.created_at AND r.state = 0
            AND r.attempt_id = excluded.attempt_id THEN r.token
        ELSE max(r.token + 1, excluded.token) END,
    attempts = CASE
        WHEN r.expires_at <= excluded.created_at THEN 1
        WHEN r.state = 0 AND r.attempt_id = excluded.attempt_id THEN r.attempts
        ELSE r.attempts + 1 END,
    created_at = CASE
        WHEN r.expires_at <= excluded.created_at THEN excluded.created_at
        ELSE r.created_at END,
    lease_ends_at = excluded.lease_ends_at,
    expires_at = excluded.expires_at,
    purge_at = excluded.purge_at,
    sealed_at = NULL,
    sweep_at = excluded.sweep_at,
    state = 0,
    fingerprint = excluded.fingerprint,
    attempt_id = excluded.attempt_id,
    metadata = excluded.metadata,
    result = CASE WHEN r.expires_at > excluded.created_at AND r.state = 0 THEN r.result END
WHERE r.token < 9223372036854775807 AND (
    r.expires_at <= excluded.created_at OR r.fingerprint = excluded.fingerprint AND (
        r.state = 0 AND r.attempt_id = excluded.attempt_id
        OR r.state = 0 AND r.lease_ends_at <= excluded.created_at
            AND r.sweep_at IS NULL AND excluded.sweep_at IS NULL
        OR r.state = 2 AND {retries_failed}))
RETURNING ",
    columns!("1", "NULL"),
);

/// Finds a record with the greatest token, which [`ACQUIRE`] leaves alone: no token is greater. No
/// clock gives such a token.
pub(crate) const EXHAUSTED: &str = concat!(
    "SELECT 1 FROM {table} WHERE ",
    key!(),
    " AND token = 9223372036854775807",
);

/// Inserts claims of many keys that have no row, with the values [`INSERT_VALUES`] for each. A row
/// whose key is NULL is no claim. The clock is read once.
///
/// Runs under the write lock, and writes no row that exists, whatever its state: [`HELD`] and
/// [`ACQUIRE`] decide those claims. Of two claims of one key, the first that the statement comes to
/// gets the row.
pub(crate) fn insert_many(claims: usize) -> String {
    let values = vec![ROW; claims].join(", ");
    [INSERT_MANY, &values, INSERTED].concat()
}

/// The values of each row of [`insert_many`].
pub(crate) const INSERT_VALUES: &[Parameter] = &[
    Parameter::Scope,
    Parameter::Operation,
    Parameter::Id,
    Parameter::Fingerprint,
    Parameter::AttemptId,
    Parameter::Lease,
    Parameter::Retention,
    Parameter::FailsWhenStale,
    Parameter::Metadata,
];

const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?)";

const INSERT_MANY: &str = concat!(
    "WITH clock(now) AS MATERIALIZED (SELECT ",
    now!(),
    ")
INSERT INTO {table} (token, created_at, lease_ends_at, expires_at, purge_at, sweep_at, attempts,
    state, scope, operation, id, fingerprint, attempt_id, metadata)
SELECT now, now, now + column6, now + column6 + column7, now + column6 + column7,
    CASE WHEN column8 THEN now + column6 END, 1, 0, column1, column2, column3, column4, column5, column9
FROM clock CROSS JOIN (VALUES ",
);

const INSERTED: &str = ") WHERE column1 IS NOT NULL
ON CONFLICT (scope, operation, id) DO NOTHING
RETURNING attempt_id, created_at";

/// Fails one stale record that must not be taken over; it has no owner then. No row comes back when
/// the record has changed since it was read: a repeated claim finds out.
///
/// Row C6.
pub(crate) const ABANDON: &str = concat!(
    "UPDATE {table}
SET state = 2, result = {result}, sealed_at = ",
    now!(),
    ", sweep_at = NULL, attempt_id = zeroblob(16)
WHERE ",
    key!(),
    " AND token = {token} AND state = 0 AND lease_ends_at <= ",
    now!(),
    " AND expires_at > ",
    now!(),
    "
RETURNING ",
    columns!("0", "result"),
);

/// One row comes back when the claim was held. `purge_at` stays as it is while it is late by no
/// more than an eighth of the retention, so that its index is not written.
///
/// Row S2.
pub(crate) const SEAL: &str = concat!(
    "UPDATE {table}
SET state = {state}, result = {result}, sealed_at = ",
    now!(),
    ", sweep_at = NULL, expires_at = ",
    now!(),
    " + {retention}, purge_at = CASE
    WHEN purge_at - ",
    now!(),
    " BETWEEN {retention} AND {retention} + {retention} / 8 THEN purge_at
    ELSE ",
    now!(),
    " + {retention} END
WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > ",
    now!(),
    " RETURNING 1",
);

/// Reads what a seal or release that changed nothing has met: whether the claim is the latest
/// acquisition, and its state.
///
/// Rows S1, S3 and S4, and R1, R2 and R4.
pub(crate) const OWNED: &str = concat!(
    "SELECT state, result FROM {table} WHERE ",
    owned!(),
    " AND (expires_at > ",
    now!(),
    " OR state = 3)",
);

/// The row stays, so that the next token is greater whatever the clock does. It counts as absent,
/// and `delete_expired` deletes it like any other.
///
/// Row R3.
pub(crate) const RELEASE: &str = concat!(
    "UPDATE {table} SET state = 3, expires_at = 0, sweep_at = NULL, result = NULL, purge_at = ",
    now!(),
    " WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > ",
    now!(),
    " RETURNING 1",
);

/// Never shortens a lease.
///
/// Row N2.
pub(crate) const RENEW: &str = concat!(
    "UPDATE {table} SET
    lease_ends_at = max(lease_ends_at, ",
    now!(),
    " + {lease}),
    expires_at = expires_at + max(0, ",
    now!(),
    " + {lease} - lease_ends_at),
    purge_at = max(purge_at, expires_at + max(0, ",
    now!(),
    " + {lease} - lease_ends_at)),
    sweep_at = CASE WHEN sweep_at IS NOT NULL THEN max(lease_ends_at, ",
    now!(),
    " + {lease}) END
WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > ",
    now!(),
    " RETURNING lease_ends_at, ",
    now!(),
);

pub(crate) const GET: &str = concat!(
    "SELECT ",
    columns!("0", "CASE WHEN state <> 0 THEN result END"),
    " FROM {table} WHERE ",
    key!(),
    " AND expires_at > ",
    now!(),
);

/// Keeps a row whose token is ahead of the clock (which was set back), because the next token is
/// made from it.
pub(crate) const DELETE_EXPIRED: &str = concat!(
    "DELETE FROM {table} WHERE rowid IN (
    SELECT rowid FROM {table}
    WHERE purge_at <= ",
    now!(),
    " AND expires_at <= ",
    now!(),
    " AND token < ",
    now!(),
    "
    ORDER BY purge_at LIMIT {limit})
RETURNING 1",
);

pub(crate) const FAIL_ABANDONED: &str = concat!(
    "UPDATE {table}
SET state = 2, result = {result}, sealed_at = ",
    now!(),
    ", sweep_at = NULL, attempt_id = zeroblob(16)
WHERE rowid IN (
    SELECT rowid FROM {table}
    WHERE sweep_at <= ",
    now!(),
    " AND state = 0 AND expires_at > ",
    now!(),
    "
    ORDER BY sweep_at LIMIT {limit})
RETURNING 1",
);
