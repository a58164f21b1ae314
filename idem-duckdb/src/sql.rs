//! The statements, each with the argument why it is safe.
//!
//! DuckDB's transactions see the state at their beginning (snapshot isolation), and have no locks:
//! of two that write a row, the later one gets an error, and changes nothing. The store repeats a
//! statement of its own then, so a statement that takes effect has judged the latest version of the
//! row. In a caller's transaction the error is `Contention`.
//!
//! That holds only for statements that *return* rows. A plain `UPDATE` changes the columns in place
//! and conflicts with other updates of the same columns, but neither with updates of other columns
//! nor with a `DELETE` of the row: both commit. With `RETURNING`, and in `ON CONFLICT DO UPDATE`,
//! DuckDB deletes the version of the row and writes another, and two deletions of a version
//! conflict. So every statement here that changes rows returns them.
//!
//! Two inserts of a key conflict at the later commit, by the primary key.
//!
//! The clock is the process's, in microseconds: see `executor`. It is bound like a parameter, and
//! comes back behind the columns of each row.
//!
//! Rows such as C1, S2, R3 and N2 are those of the tables in `idem_core::backend::decision`. The
//! conformance suite takes each of them to the store.

/// The columns of a record, in the order in which they are read; the clock follows.
macro_rules! columns {
    ($won:literal, $result:literal) => {
        concat!(
            $won,
            ", state, token, attempts, fingerprint, created_at, expires_at, lease_ends_at,
    sweep_at IS NOT NULL, sealed_at, metadata, ",
            $result
        )
    };
}

/// The condition that the claim holds the key.
macro_rules! owned {
    () => {
        "key = {key} AND token = {token} AND attempt_id = {attempt_id}"
    };
}

/// The attempt id of a record that nobody holds.
macro_rules! nobody {
    () => {
        r"'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00'::BLOB"
    };
}

mod capabilities;

pub(crate) use capabilities::*;

/// Reads a live record that this claim must not touch: the answer to a duplicate. An empty answer
/// proves nothing; [`ACQUIRE`] decides, before or after this read.
///
/// Rows C2, C4, C6, C8 and C9; [`ABANDON`] does what C6 says.
pub(crate) const HELD: &str = concat!(
    "SELECT ",
    columns!(
        "0",
        "CASE WHEN fingerprint = {fingerprint} AND state <> 0 THEN result END"
    ),
    " FROM {table}
WHERE key = {key} AND expires_at > {clock} AND NOT (fingerprint = {fingerprint} AND (
    state = 0 AND attempt_id = {attempt_id}
    OR state = 0 AND lease_ends_at <= {clock} AND sweep_at IS NULL AND NOT {fails_when_stale}
    OR state = 2 AND {retries_failed}))",
);

/// `excluded.created_at` is the clock.
///
/// No row comes back, and nothing is written, when there is a live record that this claim must not
/// touch: [`HELD`] sees it, unless it is gone by then.
///
/// `result` holds the last checkpoint while the record is in flight. An acquisition of a live
/// record in flight, by a takeover or by the attempt itself, continues from that checkpoint; any
/// other acquisition begins without one.
///
/// Its condition is rows C1, C3, C5 and C7.
pub(crate) const ACQUIRE: &str = concat!(
    "INSERT INTO {table} AS r (key, scope, operation, id, token, created_at, lease_ends_at,
    expires_at, sweep_at, attempts, state, fingerprint, attempt_id, metadata)
SELECT {key}, {scope}, {operation}, {id}, now, now, now + {lease}, now + {lease} + {retention},
    CASE WHEN {fails_when_stale} THEN now + {lease} END, 1, 0, {fingerprint}, {attempt_id},
    {metadata}
FROM (SELECT {clock} AS now)
ON CONFLICT (key) DO UPDATE SET
    token = CASE
        WHEN r.expires_at > excluded.created_at AND r.state = 0
            AND r.attempt_id = excluded.attempt_id THEN r.token
        -- Computed for rows that the condition below leaves alone, too.
        WHEN r.token = 9223372036854775807 THEN r.token
        ELSE greatest(r.token + 1, excluded.token) END,
    attempts = CASE
        WHEN r.expires_at <= excluded.created_at THEN 1
        WHEN r.state = 0 AND r.attempt_id = excluded.attempt_id THEN r.attempts
        ELSE r.attempts + 1 END,
    created_at = CASE
        WHEN r.expires_at <= excluded.created_at THEN excluded.created_at
        ELSE r.created_at END,
    lease_ends_at = excluded.lease_ends_at,
    expires_at = excluded.expires_at,
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
pub(crate) const EXHAUSTED: &str =
    "SELECT 1 FROM {table} WHERE key = {key} AND token = 9223372036854775807";

/// Inserts claims of many keys that have no row. A row whose key is NULL is no claim. The clock is
/// the last parameter.
///
/// Writes no row that exists, whatever its state: [`HELD`] and [`ACQUIRE`] decide those claims. A
/// key that another transaction inserts meanwhile is a conflict, and none of the rows is written.
pub(crate) fn insert_many(claims: usize) -> String {
    let mut next = 0;
    let mut row = || {
        let values = INSERTED.map(|kind| {
            next += 1;
            format!("${next}::{kind}")
        });
        format!("({})", values.join(", "))
    };
    let rows: Vec<_> = (0..claims).map(|_| row()).collect();
    format!(
        "INSERT INTO {{table}} (key, scope, operation, id, token, created_at, lease_ends_at,
    expires_at, sweep_at, attempts, state, fingerprint, attempt_id, metadata)
SELECT key, scope, operation, id, now, now, now + lease, now + lease + retention,
    CASE WHEN fails THEN now + lease END, 1, 0, fingerprint, attempt_id, metadata
FROM (VALUES {}) AS c (key, scope, operation, id, fingerprint, attempt_id, lease, retention, fails,
    metadata), (SELECT ${} AS now)
WHERE key IS NOT NULL
ON CONFLICT (key) DO NOTHING
RETURNING key, token",
        rows.join(", "),
        next + 1
    )
}

/// The types of the values of each row of [`insert_many`].
pub(crate) const INSERTED: [&str; 10] = [
    "BLOB", "VARCHAR", "VARCHAR", "VARCHAR", "BLOB", "BLOB", "BIGINT", "BIGINT", "BOOLEAN",
    "VARCHAR",
];

/// Fails one stale record that must not be taken over; it has no owner then. No row comes back when
/// the record has changed since it was read: a repeated claim finds out.
///
/// Row C6.
pub(crate) const ABANDON: &str = concat!(
    "UPDATE {table}
SET state = 2, result = {result}, sealed_at = {clock}, sweep_at = NULL, attempt_id = ",
    nobody!(),
    "
WHERE key = {key} AND token = {token} AND state = 0 AND lease_ends_at <= {clock}
    AND expires_at > {clock}
RETURNING ",
    columns!("0", "result"),
);

/// One row comes back when the claim was held.
///
/// Row S2.
pub(crate) const SEAL: &str = concat!(
    "UPDATE {table}
SET state = {state}, result = {result}, sealed_at = {clock}, sweep_at = NULL,
    expires_at = {clock} + {retention}
WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > {clock}
RETURNING 1",
);

/// Reads what a seal or release that changed nothing has met: whether the claim is the latest
/// acquisition, and its state.
///
/// Rows S1, S3 and S4, and R1, R2 and R4.
pub(crate) const OWNED: &str = concat!(
    "SELECT state, result FROM {table} WHERE ",
    owned!(),
    " AND (expires_at > {clock} OR state = 3)",
);

/// The row stays, so that the next token is greater whatever the clock does. It counts as absent,
/// and `delete_expired` deletes it like any other.
///
/// Row R3.
pub(crate) const RELEASE: &str = concat!(
    "UPDATE {table} SET state = 3, expires_at = 0, sweep_at = NULL, result = NULL
WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > {clock}
RETURNING 1",
);

/// Never shortens a lease.
///
/// Row N2.
pub(crate) const RENEW: &str = concat!(
    "UPDATE {table} SET
    lease_ends_at = greatest(lease_ends_at, {clock} + {lease}),
    expires_at = expires_at + greatest(0, {clock} + {lease} - lease_ends_at),
    sweep_at = CASE WHEN sweep_at IS NOT NULL THEN greatest(lease_ends_at, {clock} + {lease}) END
WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > {clock}
RETURNING lease_ends_at",
);

pub(crate) const GET: &str = concat!(
    "SELECT ",
    columns!("0", "CASE WHEN state <> 0 THEN result END"),
    " FROM {table} WHERE key = {key} AND expires_at > {clock}",
);

/// Keeps a row whose token is ahead of the clock (which was set back), because the next token is
/// made from it. A record that is acquired meanwhile is a conflict, because both statements return:
/// see the beginning of this file.
pub(crate) const DELETE_EXPIRED: &str = "DELETE FROM {table} WHERE key IN (
    SELECT key FROM {table} WHERE expires_at <= {clock} AND token < {clock}
    ORDER BY expires_at LIMIT {limit})
RETURNING 1";

/// A record that its holder completes or renews meanwhile is a conflict.
pub(crate) const FAIL_ABANDONED: &str = concat!(
    "UPDATE {table}
SET state = 2, result = {result}, sealed_at = {clock}, sweep_at = NULL, attempt_id = ",
    nobody!(),
    "
WHERE key IN (
    SELECT key FROM {table} WHERE sweep_at <= {clock} AND state = 0 AND expires_at > {clock}
    ORDER BY sweep_at LIMIT {limit})
RETURNING 1",
);
