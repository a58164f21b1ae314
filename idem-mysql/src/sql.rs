//! The statements, each with the argument why it is safe.
//!
//! Each commits by itself, needs no session state, and means the same under READ COMMITTED and
//! REPEATABLE READ. At every level the condition of an UPDATE, and the row that an INSERT meets,
//! are judged on the locked, latest version of the row ("Locking Reads", "Consistent Nonlocking
//! Reads", <https://dev.mysql.com/doc/refman/8.4/en/innodb-consistent-read.html>). The result of a
//! plain SELECT is never taken as proof that a key is free.
//!
//! The clock is `UTC_TIMESTAMP(6)`, the server's clock at the start of the statement: not of the
//! transaction, and independent of the session's time zone. It is read before any wait for a lock:
//! an instant that is a little old lets a lease look live for longer, never stale too early.
//!
//! Assignments of an UPDATE happen from left to right, so each value is read before it changes
//! (<https://dev.mysql.com/doc/refman/8.4/en/update.html>). Nothing here depends on `sql_mode`:
//! there is no `||`, no double quote, no bare `NOT`, and no literal except numbers, hexadecimal
//! bytes and one date.
//!
//! # A proxy that splits reads from writes
//!
//! It may send a SELECT to a replica that lags. So each read that decides stands in parentheses. They
//! change nothing on the server, and the rules of ProxySQL's documentation, `^SELECT`, do not match
//! them (<https://proxysql.com/documentation/proxysql-read-write-split-howto/>). A lock (`FOR SHARE`)
//! would keep every proxy from it, but waits for an open transaction. MaxScale and MySQL Router read
//! the statement all the same, and their hints are no part of it. So a read proves no winner without
//! the count of a write, and where a read shows less than the writes before it, the store asks whether
//! a replica has answered.
//!
//! # No statement waits for a lock
//!
//! A caller's transaction may keep a row locked for as long as it likes, and a statement that waits
//! for it keeps a connection busy. So a statement that meets a lock fails at once and undoes its
//! changes, and the session sends it again for
//! [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT). Each server has its own way, which is part
//! of the statement and so holds in every session and behind every pooler:
//!
//! * MariaDB: `SET STATEMENT innodb_lock_wait_timeout = 0 FOR …`, error 1205
//!   (<https://mariadb.com/kb/en/wait-and-nowait/>, <https://mariadb.com/kb/en/set-statement/>).
//! * MySQL has `NOWAIT` for SELECT alone, and no time-out below a second. So an independent
//!   subquery takes the lock with `NOWAIT`, error 3572, before the statement touches the row: the
//!   server evaluates it while it optimizes. It is in a derived table, because MySQL reads no table
//!   in a subquery of a statement that changes it (1093). The lock is the one that the statement
//!   takes anyway. Between the probe of an absent key and its INSERT another caller may insert: the
//!   session bounds that wait (1 s on connections of the store's own).
//!
//! A probe for an absent key locks the gap around it under REPEATABLE READ and SERIALIZABLE, and in
//! a transaction until its end. So an INSERT probes under READ COMMITTED only.
//!
//! Rows such as C1, S2, R3 and N2 are those of the tables in `idem_core::backend::decision`. The
//! conformance suite takes each of them to the store.

/// The part of a statement's text that is repeated for each item, and its placeholder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) placeholder: &'static str,
    pub(crate) item: &'static str,
    pub(crate) separator: &'static str,
}

/// The server's clock in microseconds.
macro_rules! now {
    () => {
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    };
}

/// The columns that `row.rs` reads of a record, in this order. The short columns come as one; if
/// the session's character set writes digits with more than one byte, their other bytes are zero.
/// The result is always sent: a condition on it would cost each replay more than it saves the few
/// claims in conflict.
macro_rules! columns {
    ($result:literal) => {
        concat!(
            "CONCAT(attempt_id, CONCAT_WS(' ', state, token, attempts, created_at, expires_at, lease_ends_at,
    sweep_at IS NOT NULL, COALESCE(sealed_at, -1), ",
            now!(),
            "), fingerprint) AS head, metadata, ",
            $result,
            " AS result"
        )
    };
}

/// 2⁶². `purge_at` of a record that `fail_abandoned` may fail is `sweep_at` less this number, so
/// that one index serves both tasks, and each claim writes one index less. Values below zero are
/// exactly those records, in the order in which their leases end. Instants are far smaller.
macro_rules! below {
    () => {
        "4611686018427387904"
    };
}

/// Sets `purge_at` of a record in flight, once `sweep_at` and `expires_at` are set.
macro_rules! due {
    () => {
        concat!("COALESCE(sweep_at - ", below!(), ", expires_at)")
    };
}

macro_rules! key {
    () => {
        "scope = {scope} AND operation = {operation} AND id = {id}"
    };
}

mod capabilities;
mod maintenance;

pub(crate) use capabilities::*;
pub(crate) use maintenance::*;

/// The columns that an INSERT fills. A later value of a row may refer to an earlier one
/// (<https://dev.mysql.com/doc/refman/8.4/en/insert.html>), so the clock is read once.
macro_rules! insert {
    ($ignore:literal) => {
        concat!(
            "{brief}INSERT ",
            $ignore,
            "INTO {table} (
    token, created_at, lease_ends_at, expires_at, sweep_at, purge_at, attempts, state,
    scope, operation, id, fingerprint, attempt_id, metadata)
VALUES "
        )
    };
}

/// One row.
macro_rules! insert_row {
    ($before:literal, $after:literal) => {
        concat!(
            "(",
            $before,
            now!(),
            $after,
            ", token, token + {lease}, token + {kept}, token + {sweep_after}, ",
            due!(),
            ",
    1, 0, {scope}, {operation}, {id}, {fingerprint}, {attempt_id}, {metadata})"
        )
    };
}

/// Rows of [`INSERT_NEW`].
pub(crate) const INSERT_ROWS: List = List {
    placeholder: "{rows}",
    item: insert_row!("LAST_INSERT_ID(", "{probe})"),
    separator: ", ",
};

/// Reads the record with its result, which answers a duplicate. A consistent read: it locks
/// nothing and writes nothing.
pub(crate) const LOOKUP: &str = concat!(
    "(SELECT ",
    columns!("result"),
    "\nFROM {table} WHERE ",
    key!(),
    ")"
);

/// The same in a caller's transaction, where it locks the record under SERIALIZABLE.
pub(crate) const LOOKUP_IN: &str = concat!(
    "{brief}SELECT ",
    columns!("result"),
    "\nFROM {table} WHERE ",
    key!()
);

/// The same read for many keys; `{keys}` are [`KEYS`].
pub(crate) const LOOKUP_MANY: &str = concat!(
    "(SELECT ",
    columns!("result"),
    ", scope, operation, id\nFROM {table} WHERE {keys})"
);

/// Keys, joined with OR; both optimizers read them as ranges of the primary key.
pub(crate) const KEYS: List = List {
    placeholder: "{keys}",
    item: concat!("(", key!(), ")"),
    separator: " OR ",
};

/// Creates the missing records: the primary key lets one row in; all other statements wait for it
/// and find it. An existing record is not changed, whatever its state, and no index is written.
///
/// The count is proof: IGNORE counts the inserted rows and nothing else, with and without
/// CLIENT_FOUND_ROWS, and the answer comes after the commit. The token of all rows, the clock at
/// the statement's start, is in the same answer, as the insert id
/// (<https://dev.mysql.com/doc/c-api/8.4/en/mysql-insert-id.html>), so the session is not read
/// afterwards.
///
/// IGNORE turns errors about values that do not fit their columns into warnings; keys and metadata
/// were measured before.
///
/// Row C1, for keys that have no row.
pub(crate) const INSERT_NEW: &str = concat!(insert!("IGNORE "), "{rows}");

/// The same for one record in a caller's transaction, whose own insert id it leaves alone. The row
/// shows the winner, never the number of affected rows, which the driver's CLIENT_FOUND_ROWS makes
/// the same for both (<https://dev.mysql.com/doc/refman/8.4/en/insert-on-duplicate.html>).
pub(crate) const INSERT: &str = concat!(
    insert!(""),
    insert_row!("", "{probe_in}"),
    "\nON DUPLICATE KEY UPDATE token = token"
);

/// The same without a probe, where the transaction may lock gaps.
pub(crate) const INSERT_PLAIN: &str = concat!(
    insert!(""),
    insert_row!("", ""),
    "\nON DUPLICATE KEY UPDATE token = token"
);

/// The same, returning the row that exists afterwards, own or another's: MariaDB 10.5 and later
/// (<https://mariadb.com/kb/en/insertreturning/>). The answer is proof only when it was read to its
/// end, because the commit may fail after the row was sent (a Galera node certifies it there).
pub(crate) const INSERT_RETURNING: &str = concat!(
    insert!(""),
    insert_row!("", ""),
    "\nON DUPLICATE KEY UPDATE token = token\nRETURNING ",
    columns!("CAST(NULL AS BINARY)")
);

/// Acquires an existing record: expired or released, stale and open to takeover, failed and to be
/// retried, or this attempt's own, which keeps its token. Of any number of claims that wait for the
/// row's lock the first is let through, and the others find the row changed and update nothing.
///
/// `result` holds the last checkpoint while the record is in flight. An acquisition of a live
/// record in flight, by a takeover or by the attempt itself, continues from that checkpoint; any
/// other acquisition begins without one. `result` is assigned first, because the columns that it
/// reads change below.
///
/// Its condition is rows C1, C3, C5 and C7.
pub(crate) const TAKE: &str = concat!(
    "{brief}UPDATE {table} SET
    result = CASE WHEN expires_at > ",
    now!(),
    " AND state = 0 THEN result END,
    token = CASE WHEN expires_at > ",
    now!(),
    " AND state = 0 AND attempt_id = {attempt_id} THEN token
        ELSE GREATEST(token + 1, ",
    now!(),
    ") END,
    attempts = CASE WHEN expires_at <= ",
    now!(),
    " THEN 1 WHEN state = 0 AND attempt_id = {attempt_id} THEN attempts ELSE attempts + 1 END,
    created_at = CASE WHEN expires_at <= ",
    now!(),
    " THEN ",
    now!(),
    " ELSE created_at END,
    lease_ends_at = ",
    now!(),
    " + {lease},
    expires_at = ",
    now!(),
    " + {kept},
    sweep_at = ",
    now!(),
    " + {sweep_after},
    purge_at = ",
    due!(),
    ",
    sealed_at = NULL, state = 0,
    fingerprint = {fingerprint}, attempt_id = {attempt_id}, metadata = {metadata}
WHERE ",
    key!(),
    " AND (expires_at <= ",
    now!(),
    " OR fingerprint = {fingerprint} AND (
        state = 0 AND attempt_id = {attempt_id}
        OR state = 0 AND lease_ends_at <= ",
    now!(),
    " AND sweep_at IS NULL AND {fails_when_stale} = 0
        OR state = 2 AND {retries_failed} = 1)){free}"
);

/// Fails one stale record that must not be taken over; it has no owner then. Nothing changes when
/// the record was renewed, sealed or released since it was read.
///
/// Row C6.
pub(crate) const ABANDON: &str = concat!(
    "{brief}UPDATE {table} SET
    state = 2, result = {result}, sealed_at = ",
    now!(),
    ", sweep_at = NULL, purge_at = GREATEST(purge_at, expires_at),
    attempt_id = x'00000000000000000000000000000000'
WHERE ",
    key!(),
    " AND token = {token} AND state = 0 AND lease_ends_at <= ",
    now!(),
    " AND expires_at > ",
    now!(),
    "{free}"
);

/// The new `purge_at` of a sealed record, from the retention: its end, or up to an eighth of
/// the retention later, so that its index changes only where it has to.
macro_rules! kept_until {
    ($retention:literal) => {
        concat!(
            "CASE WHEN purge_at BETWEEN ",
            now!(),
            " + ",
            $retention,
            " AND ",
            now!(),
            " + ",
            $retention,
            " + ",
            $retention,
            " DIV 8 THEN purge_at ELSE ",
            now!(),
            " + ",
            $retention,
            " END"
        )
    };
}

/// One row matches when the claim was held, and it always changes, so that the count is the same
/// with and without CLIENT_FOUND_ROWS.
///
/// Row S2.
pub(crate) const SEAL: &str = concat!(
    "{brief}UPDATE {table} SET state = {state}, result = {result}, sealed_at = ",
    now!(),
    ", sweep_at = NULL,
    purge_at = ",
    kept_until!("{retention}"),
    ",
    expires_at = ",
    now!(),
    " + {retention}
WHERE ",
    key!(),
    " AND token = {token} AND attempt_id = {attempt_id} AND state = 0 AND expires_at > ",
    now!(),
    "{free}"
);

/// [`SEAL`] and [`RELEASE`] for many claims. All have ended when as many rows matched. Otherwise
/// each is sent alone, which finds out which ones have ended already.
///
/// Results are no column of the list: MySQL gives the columns of a derived table a type with a
/// length before it has seen the values, and refuses longer ones (1406).
pub(crate) const FINISH_MANY: &str = concat!(
    "{brief}UPDATE {table} JOIN (
{rows}
) AS input ON scope = in_scope AND operation = in_operation AND id = in_id
    AND token = in_token AND attempt_id = in_attempt_id
SET state = in_state, sweep_at = NULL,
    result = IF(in_state = 3, NULL, ELT(in_index, {results})),
    sealed_at = IF(in_state = 3, sealed_at, ",
    now!(),
    "),
    purge_at = IF(in_state = 3, ",
    now!(),
    ", ",
    kept_until!("in_retention"),
    "),
    expires_at = IF(in_state = 3, 0, ",
    now!(),
    " + in_retention)
WHERE state = 0 AND expires_at > ",
    now!(),
    "{free_keys}"
);

/// Rows of [`FINISH_MANY`], each with the index of its result. The names are those of the first.
pub(crate) const FINISHES: List = List {
    placeholder: "{rows}",
    item: "SELECT CAST({scope} AS BINARY) AS in_scope, CAST({operation} AS BINARY) AS in_operation, CAST({id} AS BINARY) AS in_id, \
           CAST({token} AS SIGNED) AS in_token, CAST({attempt_id} AS BINARY) AS in_attempt_id, CAST({state} AS SIGNED) AS in_state, \
           CAST({retention} AS SIGNED) AS in_retention, CAST({index} AS SIGNED) AS in_index",
    separator: "\nUNION ALL ",
};

/// Results of [`FINISH_MANY`].
pub(crate) const RESULTS: List = List {
    placeholder: "{results}",
    item: "CAST({result} AS BINARY)",
    separator: ", ",
};

/// Reads what a seal or release that changed nothing has met: whether the claim is the latest
/// acquisition, and its state.
///
/// Rows S1, S3 and S4, and R1, R2 and R4.
pub(crate) const OWNED: &str = concat!(
    "(SELECT state, result FROM {table} WHERE ",
    key!(),
    " AND token = {token} AND attempt_id = {attempt_id} AND (expires_at > ",
    now!(),
    " OR state = 3))"
);

/// The row stays, so that the next token is greater whatever the clock
/// does. It counts as absent, and `delete_expired` deletes it like any other.
///
/// Row R3.
pub(crate) const RELEASE: &str = concat!(
    "{brief}UPDATE {table} SET state = 3, expires_at = 0, purge_at = ",
    now!(),
    ", sweep_at = NULL, result = NULL
WHERE ",
    key!(),
    " AND token = {token} AND attempt_id = {attempt_id} AND state = 0 AND expires_at > ",
    now!(),
    "{free}"
);

/// Never shortens a lease. The order matters: `lease_ends_at`
/// is last, and `purge_at` comes after the columns that it is made of.
///
/// Row N2.
pub(crate) const RENEW: &str = concat!(
    "{brief}UPDATE {table} SET
    expires_at = expires_at + GREATEST(0, ",
    now!(),
    " + {lease} - lease_ends_at),
    sweep_at = CASE WHEN sweep_at IS NOT NULL THEN GREATEST(lease_ends_at, ",
    now!(),
    " + {lease}) END,
    purge_at = GREATEST(purge_at, ",
    due!(),
    "),
    lease_ends_at = GREATEST(lease_ends_at, ",
    now!(),
    " + {lease})
WHERE ",
    key!(),
    " AND token = {token} AND attempt_id = {attempt_id} AND state = 0 AND expires_at > ",
    now!(),
    "{free}"
);

/// Key, token, attempt id. The lease of a claim that is held, and the clock.
///
/// Rows N1 and N3, where it returns no row.
pub(crate) const LEASE: &str = concat!(
    "(SELECT lease_ends_at, ",
    now!(),
    " FROM {table} WHERE ",
    key!(),
    " AND token = {token} AND attempt_id = {attempt_id} AND state = 0 AND expires_at > ",
    now!(),
    ")"
);

/// Key.
pub(crate) const GET: &str = concat!(
    "(SELECT ",
    columns!("result"),
    "\nFROM {table} WHERE ",
    key!(),
    " AND expires_at > ",
    now!(),
    ")"
);
