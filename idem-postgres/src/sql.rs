//! The statements, each with the argument why it is safe.
//!
//! Each is one round trip, commits by itself and needs no session state. The clock is
//! `clock_timestamp()`, the server's at this moment; `now()` would be the start of a caller's
//! transaction. It is read once per statement, before any wait for a lock: an instant that is a
//! little old lets a lease look live for longer, never stale too early.
//!
//! The isolation level is READ COMMITTED, PostgreSQL's default. Under REPEATABLE READ and
//! SERIALIZABLE (in a caller's transaction) a statement does the same or fails with 40001: see
//! "Transaction Isolation", <https://www.postgresql.org/docs/current/transaction-iso.html>.
//!
//! Rows such as C1, S2, R3 and N2 are those of the tables in `idem_core::backend::decision`. The
//! conformance suite takes each of them to the store.

/// Reads the server's clock once, in microseconds. `EXTRACT` gives a double before PostgreSQL 14:
/// its 53 bits hold today's microseconds, and the cast rounds to them.
///
/// `{mine}` is zero, or fails where the values are another statement's: see `statements.rs`.
macro_rules! instant {
    () => {
        "CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp()) * 1000000 AS bigint) + {mine}"
    };
}

macro_rules! clock {
    () => {
        concat!(
            "clock AS MATERIALIZED (
    SELECT ",
            instant!(),
            " AS now
)"
        )
    };
}

/// Reads the clock of a statement that may wait for a lock, and bounds that wait.
///
/// The server reads `lock_timeout` when a wait begins, so a statement's setting holds for its own
/// waits. The call is volatile, so the server does not leave it out although its value is unused;
/// the clock is read before any row is touched. The setting is local to the transaction: a
/// statement that commits by itself leaves the session as it was, on any connection and behind any
/// pooler. In a caller's transaction `{restore:…}` puts the earlier value back.
macro_rules! bounded_clock {
    () => {
        concat!(
            "clock AS MATERIALIZED (
    SELECT ",
            instant!(),
            " AS now, {bound}
)"
        )
    };
}

/// The condition of a read that decides: a server in recovery fails it, before it reads a row.
///
/// A standby may lag, so a caller who lost a race would not find the winner, and the holder of a
/// sealed claim would have lost it. A proxy that splits reads from writes sends a plain SELECT there.
/// PgDog obeys the comment (<https://docs.pgdog.dev/features/load-balancer/manual-routing>), and
/// Pgpool-II leaves a volatile function on the primary
/// (<https://www.pgpool.net/docs/latest/en/html/runtime-config-load-balancing.html>). Others, as
/// pgcat, read neither. A lock (`FOR SHARE`) or a write in a CTE would write, or lock more than a
/// read, and pgcat sends the latter to a standby, too. So the server says itself what it is.
///
/// The subquery depends on no row: the server computes it once, and first ("One-Time Filter").
macro_rules! on_primary {
    () => {
        "(SELECT {primary}) = 0 /* pgdog_role: primary */"
    };
}

/// The columns that `row.rs` reads of a record, in this order.
macro_rules! columns {
    ($result:literal) => {
        columns!($result, "clock.now")
    };
    ($result:literal, $now:expr) => {
        concat!(
            "r.state, r.token, r.attempts, r.fingerprint, r.created_at, r.expires_at, r.lease_ends_at,
    r.sweep_at IS NOT NULL, r.sealed_at, r.metadata, ",
            $result,
            ", ",
            $now
        )
    };
}

/// A message in the log, of this transaction. Any role may write one.
macro_rules! message {
    () => {
        "pg_catalog.pg_logical_emit_message(true, CAST('idem' AS pg_catalog.text), CAST('' AS pg_catalog.text)) IS NOT NULL"
    };
}

mod capabilities;

pub(crate) use capabilities::*;

macro_rules! insert_columns {
    () => {
        "token, created_at, lease_ends_at, expires_at, purge_at, sweep_at, attempts, state,
        scope, operation, id, fingerprint, attempt_id, metadata"
    };
}

/// Changes a record that exists, once its lock is held; `excluded.created_at` is the clock.
///
/// The condition is judged on the locked, latest version of the row (READ COMMITTED re-reads it
/// after a wait). So of any number of claims that wait for one lock the first is let through, and
/// the others find the row changed and update nothing. An attempt that repeats its own claim keeps
/// its token.
///
/// `result` holds the last checkpoint while the record is in flight. An acquisition of a live
/// record in flight, by a takeover or by the attempt itself, continues from that checkpoint; any
/// other acquisition begins without one. The checkpoint is the locked version's: one that was
/// acknowledged before the takeover is in it, a later one is refused.
///
/// Its condition is rows C1, C3, C5 and C7.
macro_rules! acquire_existing {
    ($retry_failed:literal) => {
        concat!(
            "ON CONFLICT (scope, operation, id) DO UPDATE SET
        token = CASE
            WHEN r.expires_at > excluded.created_at AND r.state = 0
                AND r.attempt_id = excluded.attempt_id THEN r.token
            ELSE GREATEST(r.token + 1, excluded.token) END,
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
        result = CASE
            WHEN r.expires_at > excluded.created_at AND r.state = 0 THEN r.result END
    WHERE r.expires_at <= excluded.created_at OR r.fingerprint = excluded.fingerprint AND (
        r.state = 0 AND r.attempt_id = excluded.attempt_id
        OR r.state = 0 AND r.lease_ends_at <= excluded.created_at
            AND r.sweep_at IS NULL AND excluded.sweep_at IS NULL
        OR r.state = 2 AND ",
            $retry_failed,
            ")"
        )
    };
}

/// Inserts a key that has no row. The returned row proves which claim won, as in [`CLAIM`].
///
/// No row comes back when the key has a row in any state, or when one was committed since the
/// snapshot was taken (READ COMMITTED; this statement is not sent in a caller's transaction). Then
/// nothing was written: the server searches the index before it makes the row, locks no row, and
/// takes no transaction id. The clock, being volatile, is not pulled out of its subselect, so it is
/// read once.
///
/// Row C1, for a key that has no row.
pub(crate) const INSERT: &str = concat!(
    "INSERT INTO {table} (",
    insert_columns!(),
    ")
SELECT now, now, now + {lease}, now + {lease} + {retention}, now + {lease} + {retention}, CASE WHEN {fails_when_stale} THEN now + {lease} END, 1, 0,
    {scope}, {operation}, {id}, {fingerprint}, {attempt_id}, {metadata}
FROM (SELECT ",
    instant!(),
    " AS now, {bound}) AS clock
ON CONFLICT (scope, operation, id) DO NOTHING
RETURNING token, lease_ends_at",
);

/// Finds out whether an open transaction holds the key; always rolled back. Waits for that
/// transaction's end as [`INSERT`] does, and then fails.
pub(crate) const PROBE: &str = concat!(
    "INSERT INTO {table} (",
    insert_columns!(),
    ")
SELECT now, now, now, 0, now, NULL, 1, 3, {scope}, {operation}, {id}, pg_catalog.decode('', 'hex'),
    pg_catalog.decode('', 'hex'), NULL
FROM (SELECT ",
    instant!(),
    " AS now, {bound}) AS clock
ON CONFLICT (scope, operation, id) DO NOTHING",
);

/// A plain read by the primary key, with the clock. It proves that the claim has lost against a
/// live record, and nothing else.
///
/// Rows C2, C4, C8 and C9.
pub(crate) const LOOKUP: &str = concat!(
    "SELECT r.attempt_id = {attempt_id}, ",
    columns!(
        "CASE WHEN r.fingerprint = {fingerprint} AND r.state <> 0 THEN r.result END",
        "pg_catalog.clock_timestamp()"
    ),
    " FROM {table} AS r
WHERE ",
    on_primary!(),
    " AND r.scope = {scope} AND r.operation = {operation} AND r.id = {id}"
);

/// The read `held` finds a live record that this claim must not touch. Then nothing is written, no
/// row is locked, and no transaction id is taken. (The table is locked in ROW EXCLUSIVE mode, as by
/// any statement that could write; that blocks no reader or writer.) Otherwise the insert decides:
/// its unique index lets one row in, and the returned row proves which claim won. The read is never
/// taken as proof that the key is free.
///
/// No row comes back when the winner commits between the snapshot, which shows neither row, and the
/// insert, which then meets the winner's row. A repeated claim sees it.
///
/// `held` is rows C2, C4, C6, C8 and C9, and `won` the others; [`ABANDON`] does what C6 says.
pub(crate) const CLAIM: &str = concat!(
    "WITH ",
    bounded_clock!(),
    ",
held AS MATERIALIZED (
    SELECT r.* FROM {table} AS r, clock
    WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.expires_at > clock.now
        AND NOT (r.fingerprint = {fingerprint} AND (
            r.state = 0 AND r.attempt_id = {attempt_id}
            OR r.state = 0 AND r.lease_ends_at <= clock.now AND r.sweep_at IS NULL AND NOT {fails_when_stale}
            OR r.state = 2 AND {retries_failed}))
),
won AS (
    INSERT INTO {table} AS r (",
    insert_columns!(),
    ")
    SELECT now, now, now + {lease}, now + {lease} + {retention}, now + {lease} + {retention}, CASE WHEN {fails_when_stale} THEN now + {lease} END, 1, 0,
        {scope}, {operation}, {id}, {fingerprint}, {attempt_id}, {metadata}
    FROM clock WHERE NOT EXISTS (SELECT FROM held)
    ",
    acquire_existing!("{retries_failed}"),
    "
    RETURNING r.*
)
SELECT true, ",
    columns!("CAST(NULL AS pg_catalog.bytea)"),
    " FROM won AS r, clock
UNION ALL
SELECT false, ",
    columns!("CASE WHEN r.fingerprint = {fingerprint} AND r.state <> 0 THEN r.result END"),
    " FROM held AS r, clock{restore:13}",
);

/// Inserts the completed record of a transaction that holds the key by an advisory lock, so that
/// no other such transaction is at work. One version of the row is written, where a claim and its
/// seal write two.
///
/// The mark proves that this is still the transaction that took the lock: the setting is local to
/// it, so after a COMMIT or ROLLBACK by the work the cast fails, and nothing is written.
///
/// The unique index decides against everybody who knows nothing of that lock, as a claim with a
/// lease: no row comes back when the key has a live record that this request may not acquire. Its
/// condition is rows C1, C5 and C7, judged on the locked, latest version of the row, as in
/// [`CLAIM`]. The index entry keeps later claims waiting until the transaction ends. The commit
/// follows, so the bound of the wait for locks is not put back.
pub(crate) const FINISHED: &str = concat!(
    "INSERT INTO {table} AS r (",
    insert_columns!(),
    ", sealed_at, result)
SELECT now + CAST(CASE WHEN pg_catalog.current_setting('idem.attempt', true) = pg_catalog.encode({attempt_id}, 'hex')
        THEN '0' ELSE '{ended}' END AS bigint), now, now, now + {retention}, now + {retention},
        NULL, 1, 1, {scope}, {operation}, {id}, {fingerprint}, {attempt_id}, {metadata}, now, {result}
FROM (SELECT ",
    instant!(),
    " AS now, {bound}) AS clock
ON CONFLICT (scope, operation, id) DO UPDATE SET
        token = GREATEST(r.token + 1, excluded.token),
        attempts = CASE WHEN r.expires_at <= excluded.created_at THEN 1 ELSE r.attempts + 1 END,
        created_at = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.created_at
            ELSE r.created_at END,
        lease_ends_at = excluded.lease_ends_at,
        expires_at = excluded.expires_at,
        purge_at = excluded.purge_at,
        sealed_at = excluded.sealed_at,
        sweep_at = NULL,
        state = 1,
        fingerprint = excluded.fingerprint,
        attempt_id = excluded.attempt_id,
        metadata = excluded.metadata,
        result = excluded.result
    WHERE r.expires_at <= excluded.created_at OR r.fingerprint = excluded.fingerprint AND (
        r.state = 0 AND r.lease_ends_at <= excluded.created_at
            AND r.sweep_at IS NULL AND NOT {fails_when_stale}
        OR r.state = 2 AND {retries_failed})
RETURNING r.token, r.attempts, r.created_at{notified:, pg_catalog.pg_notify('{channel}', {topic}):}",
);

/// Fails one stale record that must not be taken over; it has no owner then. No row comes back when
/// the record was renewed, sealed or released since it was read: a repeated claim finds out.
///
/// Row C6.
pub(crate) const ABANDON: &str = concat!(
    "WITH ",
    bounded_clock!(),
    ",
r AS (
    UPDATE {table} AS r
    SET state = 2, result = {result}, sealed_at = clock.now, sweep_at = NULL,
        attempt_id = pg_catalog.decode('00000000000000000000000000000000', 'hex')
    FROM clock
    WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token}
        AND r.state = 0 AND r.lease_ends_at <= clock.now AND r.expires_at > clock.now
    RETURNING r.*
)
SELECT false, ",
    columns!("r.result"),
    " FROM r, clock{restore:13}"
);

/// Keeps `purge_at` although the retention changes: it may be late by an eighth of the time that is
/// left. An index column that does not change lets the update be a heap-only one.
macro_rules! purge_at {
    ($purge_at:literal, $expires_at:literal, $retention:literal) => {
        concat!(
            "CASE WHEN ",
            $purge_at,
            " BETWEEN ",
            $expires_at,
            " AND ",
            $expires_at,
            " + ",
            $retention,
            " / 8 THEN ",
            $purge_at,
            " ELSE ",
            $expires_at,
            " END"
        )
    };
}

mod batches;

pub(crate) use batches::*;

macro_rules! seal {
    ($begun:literal) => {
        concat!(
            "WITH ",
            bounded_clock!(),
            ",
sealed AS (
    UPDATE {table} AS r
    SET state = CAST({state} AS bigint)",
            $begun,
            ", result = {result}, sealed_at = clock.now, sweep_at = NULL,
        expires_at = clock.now + {retention},
        purge_at = ",
            purge_at!("r.purge_at", "(clock.now + {retention})", "{retention}"),
            "
    FROM clock
    WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token} AND r.attempt_id = {attempt_id}
        AND r.state = 0 AND r.expires_at > clock.now
    RETURNING 1 AS one{notified:, pg_catalog.pg_notify('{channel}', {topic}):}
)
SELECT one FROM sealed{restore:1}",
        )
    };
}

/// One row comes back when the claim was held; ownership is checked on the locked row.
///
/// The changed row sends the notification, so once; a statement that changes none sends none. The
/// server delivers it when the transaction commits.
///
/// Row S2.
pub(crate) const SEAL: &str = seal!("");

/// [`SEAL`] in a transaction of the engine, whose begin has set a mark. As in [`FINISHED`], the
/// cast fails when the work has ended that transaction.
pub(crate) const SEAL_BEGUN: &str = seal!(
    " + CAST(CASE WHEN pg_catalog.current_setting('idem.attempt', true) = 'begun'
        THEN '0' ELSE '{ended}' END AS bigint)"
);

/// Reads what a step that changed nothing has met: the key's latest committed acquisition, its
/// state, and whether it counts. A plain read: its answer can only have become true.
///
/// Rows S1, S3 and S4, and R1, R2 and R4.
pub(crate) const OWNED: &str = concat!(
    "WITH ",
    clock!(),
    "
SELECT r.state, r.result, r.token, r.attempt_id = {attempt_id}, r.expires_at > clock.now OR r.state = 3
FROM {table} AS r, clock
WHERE ",
    on_primary!(),
    " AND r.scope = {scope} AND r.operation = {operation} AND r.id = {id}"
);

/// The row stays, so that the next token is greater whatever the clock does. It counts as absent,
/// and `delete_expired` deletes it like any other.
///
/// Row R3.
pub(crate) const RELEASE: &str = concat!(
    "WITH ",
    bounded_clock!(),
    "
UPDATE {table} AS r
SET state = 3, expires_at = 0, purge_at = clock.now, sweep_at = NULL, result = NULL
FROM clock
WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token} AND r.attempt_id = {attempt_id}
    AND r.state = 0 AND r.expires_at > clock.now
RETURNING 1 AS one{notified:, pg_catalog.pg_notify('{channel}', {topic}):}",
);

/// Never shortens a lease.
///
/// Row N2.
pub(crate) const RENEW: &str = concat!(
    "WITH ",
    bounded_clock!(),
    "
UPDATE {table} AS r
SET lease_ends_at = GREATEST(r.lease_ends_at, clock.now + {lease}),
    expires_at = r.expires_at + GREATEST(0, clock.now + {lease} - r.lease_ends_at),
    purge_at = GREATEST(
        r.purge_at, r.expires_at + GREATEST(0, clock.now + {lease} - r.lease_ends_at)),
    sweep_at = CASE WHEN r.sweep_at IS NOT NULL
        THEN GREATEST(r.lease_ends_at, clock.now + {lease}) END
FROM clock
WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token} AND r.attempt_id = {attempt_id}
    AND r.state = 0 AND r.expires_at > clock.now
RETURNING r.lease_ends_at, clock.now",
);

/// Returns an expired record like any other: the caller compares it with the clock of the same row,
/// which was read after the snapshot was taken.
pub(crate) const GET: &str = concat!(
    "SELECT false, ",
    columns!(
        "CASE WHEN r.state <> 0 THEN r.result END",
        "pg_catalog.clock_timestamp()"
    ),
    " FROM {table} AS r
WHERE ",
    on_primary!(),
    " AND r.scope = {scope} AND r.operation = {operation} AND r.id = {id}"
);

/// Returns a row when the begin of this transaction got the key's lock and the key has no live
/// record.
pub(crate) const FREE: &str = concat!(
    "SELECT 1 WHERE ",
    on_primary!(),
    " AND pg_catalog.current_setting('idem.attempt') <> '' AND NOT EXISTS (SELECT FROM {table} AS r
    WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.expires_at > ",
    instant!(),
    ")"
);

/// Writes a message of no content into the log, if the record is still the one that was read. A
/// transactional message gives its transaction an id, so its commit is written, flushed and waited
/// for as any other (`RecordTransactionCommit` in
/// <https://github.com/postgres/postgres/blob/master/src/backend/access/transam/xact.c>).
///
/// A commit is in the log before others can see it, and standbys get the log in its order. So when
/// they have this commit, they have that of the record, too. The record is read again because a
/// failover may have come in between: a message in another server's log would prove nothing.
pub(crate) const REPLICATED: &str = concat!(
    "SELECT ",
    message!(),
    " FROM {table} AS r
WHERE ",
    on_primary!(),
    " AND r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token}
    AND ({seen} = 0 OR r.state = {seen})"
);

/// The same for a mark, which only rises.
pub(crate) const REPLICATED_MARK: &str = concat!(
    "SELECT ",
    message!(),
    " FROM {marks} AS m
WHERE ",
    on_primary!(),
    " AND m.scope = {scope} AND m.operation = {operation} AND m.id = {id} AND m.version >= {version}"
);

/// Skips rows that others have locked. Keeps a row whose token is ahead of the clock (which was set
/// back), because the next token is made from it.
pub(crate) const DELETE_EXPIRED: &str = concat!(
    "WITH ",
    clock!(),
    ",
purged AS (
    DELETE FROM {table} WHERE ctid = ANY(ARRAY(
        SELECT r.ctid FROM {table} AS r
        WHERE r.purge_at <= (SELECT now FROM clock) AND r.expires_at <= (SELECT now FROM clock)
            AND r.token < (SELECT now FROM clock)
        ORDER BY r.purge_at LIMIT {limit} FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT pg_catalog.count(*) FROM purged"
);

/// Skips rows that others have locked.
pub(crate) const FAIL_ABANDONED: &str = concat!(
    "WITH ",
    clock!(),
    ",
swept AS (
    UPDATE {table}
    SET state = 2, result = {result}, sealed_at = (SELECT now FROM clock), sweep_at = NULL,
        attempt_id = pg_catalog.decode('00000000000000000000000000000000', 'hex')
    WHERE ctid = ANY(ARRAY(
        SELECT r.ctid FROM {table} AS r
        WHERE r.sweep_at <= (SELECT now FROM clock) AND r.state = 0
            AND r.expires_at > (SELECT now FROM clock)
        ORDER BY r.sweep_at LIMIT {limit} FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT pg_catalog.count(*) FROM swept"
);
