//! The statements, each with the argument why it is safe.
//!
//! Each is one request (`sp_executesql`), commits by itself and needs no session state: its
//! settings are in its own text (see `statements.rs`). `@now` is the server's clock,
//! `SYSUTCDATETIME()`, read once per request, before any wait for a lock: an instant that is a
//! little old lets a lease look live for longer, never stale too early. (Babelfish's is the start
//! of the request, which is the same.)
//!
//! A request of several statements is several transactions, unless it runs in a caller's: another
//! transaction may commit between any two. So only the rows that a statement's `OUTPUT` returns
//! prove that it won, and a read returns the state of its own moment. When neither returns a row,
//! the claim is repeated.
//!
//! Waits for locks are short (`LOCK_TIMEOUT`, [`idem_core::backend::MAX_LOCK_WAIT`]), because a
//! statement that waits keeps a connection busy: an open transaction that holds one key must not
//! take them all. Plain reads wait, too, where READ COMMITTED locks; `NOLOCK` would show data that
//! is never committed.
//!
//! `XACT_ABORT` is on, so that the first error ends the request: nothing is written after a
//! statement that failed. It also rolls a caller's transaction back. `NOCOUNT` is left alone:
//! counts cost a few bytes, and a server that does not restore the setting would leave it changed
//! for a caller.
//!
//! The statements are right at these levels of isolation:
//!
//! * under READ COMMITTED with locks or with row versions (`READ_COMMITTED_SNAPSHOT`, Azure SQL's
//!   default);
//! * under anything stronger in a caller's transaction (a statement does the same or fails with
//!   1205 or 3960);
//! * on servers that ignore lock hints and read from snapshots, as Babelfish does.
//!
//! A request writes with at most one of its statements. So a request that the server aborted
//! because of a deadlock has had no effect, and is sent again. See "Transaction locking and row
//! versioning guide",
//! <https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide>.
//!
//! `{name r.}` is a fragment (below) about the row `r`; other names in braces are values: a
//! parameter in a single statement, a column in a batch.
//!
//! Rows such as C1, S2, R3 and N2 are those of the tables in `idem_core::backend::decision`. The
//! conformance suite takes each of them to the store.

// Named, because the tests take this file by its path.
#[path = "sql/capabilities.rs"]
mod capabilities;
#[path = "sql/catalogue.rs"]
mod catalogue;

pub(crate) use capabilities::*;
pub(crate) use catalogue::*;
use idem_sql::parameters::Parameter;

/// The fragments by name. `{r}` in them is the row's prefix.
pub(crate) const FRAGMENTS: &[(&str, &str)] = &[
    ("key", KEY),
    ("seek", SEEK),
    ("open", OPEN),
    ("held", HELD),
    ("free", FREE),
    ("acquire", ACQUIRE),
    ("columns", COLUMNS),
    ("new", NEW),
    ("record", RECORD),
    ("owned", OWNED_CLAIM),
    ("purge_at", PURGE_AT),
];

/// Seeks the primary key; the values are `varbinary` as the columns are, so nothing is converted.
const KEY: &str = "{r}scope = {scope} AND {r}operation = {operation} AND {r}id = {id}";

/// Makes a batch seek the key of each of its rows, in their order. A scan or a hash of the table
/// would meet the locks of every other key, and wait for an open transaction that holds one of
/// them: <https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-query>.
const SEEK: &str = "OPTION (LOOP JOIN, FORCE ORDER)";

/// The condition under which a claim may acquire a live record: the record is its own, it is stale
/// and both sides allow the takeover, or it failed and may be retried.
const OPEN: &str = "({r}fingerprint = {fingerprint} AND (
        {r}state = 0 AND {r}attempt_id = {attempt_id}
        OR {r}state = 0 AND {r}lease_ends_at <= @now AND {r}sweep_at IS NULL AND {fails_when_stale} = 0
        OR {r}state = 2 AND {retries_failed} = 1))";

/// A live record that the claim must not touch.
const HELD: &str = "{r}expires_at > @now AND NOT {open {r}}";

/// The opposite: a record that it acquires.
const FREE: &str = "({r}expires_at <= @now OR {open {r}})";

/// Changes a record that is acquired; columns on the right have their earlier values. An attempt
/// that repeats its own claim keeps its token; any other token is `max(previous + 1, clock)`.
/// `result` holds the last checkpoint while the record is in flight. An acquisition of a live
/// record in flight, by a takeover or by the attempt itself, continues from that checkpoint; any
/// other acquisition begins without one.
const ACQUIRE: &str = "SET
    token = CASE
        WHEN {r}expires_at > @now AND {r}state = 0 AND {r}attempt_id = {attempt_id} THEN {r}token
        WHEN {r}token >= @now THEN {r}token + 1
        ELSE @now END,
    attempts = CASE
        WHEN {r}expires_at <= @now THEN 1
        WHEN {r}state = 0 AND {r}attempt_id = {attempt_id} THEN {r}attempts
        ELSE {r}attempts + 1 END,
    created_at = CASE WHEN {r}expires_at <= @now THEN @now ELSE {r}created_at END,
    lease_ends_at = @now + {lease},
    expires_at = @now + {lease} + {retention},
    purge_at = @now + {lease} + {retention},
    sealed_at = NULL,
    sweep_at = CASE WHEN {fails_when_stale} = 1 THEN @now + {lease} END,
    state = 0,
    fingerprint = {fingerprint},
    attempt_id = {attempt_id},
    metadata = NULLIF({metadata}, N''),
    result = CASE WHEN {r}expires_at > @now AND {r}state = 0 THEN {r}result END";

const COLUMNS: &str =
    "(token, created_at, lease_ends_at, expires_at, purge_at, sweep_at, attempts, state,
    scope, operation, id, fingerprint, attempt_id, metadata)";

/// The record of a fresh key's claim, in the order of the columns above.
const NEW: &str =
    "@now, @now, @now + {lease}, @now + {lease} + {retention}, @now + {lease} + {retention},
    CASE WHEN {fails_when_stale} = 1 THEN @now + {lease} END, 1, 0,
    {scope}, {operation}, {id}, {fingerprint}, {attempt_id}, NULLIF({metadata}, N'')";

/// The columns that `row.rs` reads of a record, in this order. Before them comes whether the claim
/// wrote the record, after them the result and the clock.
const RECORD: &str =
    "{r}state, {r}token, {r}attempts, {r}fingerprint, {r}created_at, {r}expires_at, \
                      {r}lease_ends_at,
    {r}sweep_at, {r}sealed_at, {r}metadata";

/// The condition that the claim is held: it is the latest acquisition, in flight, and its retention
/// has not ended.
const OWNED_CLAIM: &str = "{key {r}} AND {r}token = {token} AND {r}attempt_id = {attempt_id}
    AND {r}state = 0 AND {r}expires_at > @now";

/// Keeps `purge_at` although the retention changes: it may be late by an eighth of the time that is
/// left. An index whose column does not change is not written.
const PURGE_AT: &str = "CASE
        WHEN {r}purge_at >= @now + {retention} AND {r}purge_at <= @now + {retention} + {retention} / 8
            THEN {r}purge_at
        ELSE @now + {retention} END";

/// The values of single claims, in the order in which they are bound.
pub(crate) const CLAIM_VALUES: &[Parameter] = &[
    Parameter::Scope,
    Parameter::Operation,
    Parameter::Id,
    Parameter::Fingerprint,
    Parameter::AttemptId,
    Parameter::Lease,
    Parameter::Retention,
    Parameter::FailsWhenStale,
    Parameter::RetriesFailed,
    Parameter::Metadata,
];

/// The read that a claim begins with, by itself: for callers that would have to wait for others
/// with a statement that writes.
pub(crate) const LOOKUP: &str = "SELECT 0, {record r.}, \
     CASE WHEN r.fingerprint = {fingerprint} AND r.state <> 0 THEN r.result END, @now
FROM {table} AS r
WHERE {key r.}
    AND {held r.};
";

/// A claim by `MERGE`, with these locks.
macro_rules! merge {
    ($locks:literal) => {
        concat!(
            "SELECT 0, {record r.}, \
     CASE WHEN r.fingerprint = {fingerprint} AND r.state <> 0 THEN r.result END, @now
FROM {table} AS r
WHERE {key r.}
    AND {held r.};
IF @@ROWCOUNT = 0
BEGIN
MERGE {table} WITH (",
            $locks,
            ") AS r
USING (SELECT {scope} AS scope, {operation} AS operation, {id} AS id) AS s
ON r.scope = s.scope AND r.operation = s.operation AND r.id = s.id
WHEN MATCHED AND {free r.} THEN UPDATE {acquire r.}
WHEN NOT MATCHED THEN INSERT {columns}
VALUES ({new})
OUTPUT 1, {record inserted.}, CAST(NULL AS varbinary(max)), @now;
END;
"
        )
    };
}

/// `MERGE` reads the row and then updates or inserts it. `HOLDLOCK` makes the two steps one, which
/// Microsoft recommends where rows are unique:
/// <https://learn.microsoft.com/sql/t-sql/statements/merge-transact-sql#concurrency-considerations-for-merge>.
/// Of claims of one fresh key, the first inserts, and the others find its record.
///
/// The locks are those of "Key-range locking" in the guide above, on the primary key, and last
/// until the request's only write is committed:
///
/// | the key | read | write |
/// | --- | --- | --- |
/// | has a row | `RangeS-U` on the row | `RangeX-X`, or none |
/// | has none | `RangeS-U` on the next row, or on the end of the index | `RangeI-N` on that row, then `X` on the new one |
///
/// `RangeS-U` waits for others' `RangeS-U`, `U` and `X` on the row, and `RangeI-N` for others' ranges.
/// So a claim of a fresh key waits for claims of its gap, each of which ends with its request, and
/// for an open transaction that has written the next row. Inserts into the gap, and writes of the next
/// row, wait for this claim.
///
/// * **1222**: the wait is longer than `LOCK_TIMEOUT`. The repeat, [`CLAIM_BY_ROWS`], locks nothing
///   beside its key. So an open transaction delays a claim of a neighbouring key by one time-out.
/// * **1205**: a single claim waits at its read, where it holds no other lock, so it closes no circle.
///   A batch takes ranges one after the other. Two batches with opposite orders, or a batch and a
///   caller's transaction with two claims, may wait for each other. The repeat goes by rows, too. Most
///   often the first one's time-out comes before the server searches for deadlocks (every 5 s by
///   default).
/// * **2627**: no insert comes between while the range is held: a claim by rows waits for it, too. The
///   claim would be repeated.
///
/// A test of `tests/statements.rs` takes these locks in every order.
///
/// Before the `MERGE` comes the read of a live record that this claim must not touch. If there is
/// one, nothing is written, and only a read's locks are taken, which under READ COMMITTED end with
/// the row. An empty result is never taken as proof that the key is free.
///
/// The read is rows C2, C4, C6, C8 and C9, and `MERGE` the others; [`ABANDON`] does what C6 says.
pub(crate) const CLAIM_BY_MERGE: &str = merge!("HOLDLOCK");

/// [`CLAIM_BY_MERGE`] with locks on rows alone: in a caller's transaction, and where a range was not
/// free. With a range, a caller's open transaction would hold the gap of its fresh key, and every
/// other fresh key of that gap would wait for it.
///
/// Another claim's insert may come between the two steps. Then the primary key lets one in, and the
/// other gets 2627 and repeats its claim. `UPDLOCK` holds the lock of an existing row from the read
/// on, so the condition of `WHEN MATCHED` is judged on the row as it is.
pub(crate) const CLAIM_BY_ROWS: &str = merge!("UPDLOCK, ROWLOCK");

/// The same for servers without `MERGE`.
///
/// Two claims may both find no row: the primary key lets one in, and the other gets 2627 and
/// repeats its claim. For locks on rows alone, see [`CLAIM_BY_ROWS`]. The update judges its
/// condition on the locked, latest version of the row (SQL Server reads it under a U lock;
/// PostgreSQL under READ COMMITTED re-reads it after a wait). So of any number of claims that wait
/// for one row the first is let through, and the others find it changed and update nothing. When
/// the row was deleted between insert and update, neither returns one.
///
/// The update acquires only the version that was read just before it. After a wait, Babelfish
/// computes the row from the new version but `OUTPUT` from the old one: the claim would get a token
/// that is not in the record. So the update compares every column that the new row depends on; when
/// one has changed, no row comes back.
///
/// The read is rows C2, C4, C6, C8 and C9, the insert C1 without a record, and the update the
/// others.
pub(crate) const CLAIM_BY_INSERT: &str = "SELECT 0, {record r.}, \
     CASE WHEN r.fingerprint = {fingerprint} AND r.state <> 0 THEN r.result END, @now
FROM {table} AS r
WHERE {key r.}
    AND {held r.};
IF @@ROWCOUNT = 0
BEGIN
INSERT INTO {table} {columns}
OUTPUT 1, {record inserted.}, CAST(NULL AS varbinary(max)), @now
SELECT {new}
WHERE NOT EXISTS (SELECT 1 FROM {table} AS r WITH (UPDLOCK, ROWLOCK) WHERE {key r.});
IF @@ROWCOUNT = 0
BEGIN
DECLARE @token bigint, @state bigint, @expires_at bigint;
SELECT @token = r.token, @state = r.state, @expires_at = r.expires_at FROM {table} AS r WHERE {key r.};
UPDATE {table} {acquire }
OUTPUT 1, {record inserted.}, CAST(NULL AS varbinary(max)), @now
WHERE {key }
    AND {free }
    AND token = @token AND state = @state AND expires_at = @expires_at;
END;
END;
";

macro_rules! merge_many {
    ($locks:literal) => {
        concat!(
            "SELECT 0, {record r.}, \
     CASE WHEN r.fingerprint = s.fingerprint AND r.state <> 0 THEN r.result END, @now, r.scope, r.operation, r.id
FROM (VALUES {rows}
    ) AS s (n, {names})
INNER JOIN {table} AS r ON {key r.}
WHERE s.n < @P1
    AND {held r.}
{seek};
IF @@ROWCOUNT < @P1
BEGIN
MERGE {table} WITH (", $locks, ") AS r
USING (
    SELECT s.scope, s.operation, s.id, s.fingerprint, s.attempt_id, s.lease, s.retention, s.fails, s.retries, \
     s.metadata
    FROM (VALUES {rows}
        ) AS s (n, {names})
    WHERE s.n < @P1
        AND NOT EXISTS (SELECT 1 FROM {table} AS h WHERE {key h.} AND {held h.})
) AS s
ON {key r.}
WHEN MATCHED AND {free r.} THEN UPDATE {acquire r.}
WHEN NOT MATCHED THEN INSERT {columns}
VALUES ({new})
OUTPUT 1, {record inserted.}, CAST(NULL AS varbinary(max)), @now, inserted.scope, inserted.operation, inserted.id
{seek};
END;
"
        )
    };
}

/// [`CLAIM_BY_MERGE`] for many keys, each at most once in a batch: `@P1` how many rows count, then
/// the values of each. The `MERGE` leaves the held keys out, so that they are only read. A row that
/// changed after that read comes back neither won nor held, and its claim is sent alone. Two
/// batches may lock their keys in different orders: 1205 then.
pub(crate) const CLAIM_MANY_BY_MERGE: &str = merge_many!("HOLDLOCK");

/// The same with locks on rows alone: see [`CLAIM_BY_ROWS`].
pub(crate) const CLAIM_MANY_BY_ROWS: &str = merge_many!("UPDLOCK, ROWLOCK");

/// Claims the fresh keys of a batch, and reads the held ones. An existing record that may be
/// acquired is rare (a takeover), and its claim is sent alone. A lost race (2627) fails all inserts
/// of the statement; each claim is then sent alone.
pub(crate) const CLAIM_MANY_BY_INSERT: &str = "SELECT 0, {record r.}, \
     CASE WHEN r.fingerprint = s.fingerprint AND r.state <> 0 THEN r.result END, @now, r.scope, r.operation, r.id
FROM (VALUES {rows}
    ) AS s (n, {names})
INNER JOIN {table} AS r ON {key r.}
WHERE s.n < @P1
    AND {held r.}
{seek};
IF @@ROWCOUNT < @P1
BEGIN
INSERT INTO {table} {columns}
OUTPUT 1, {record inserted.}, CAST(NULL AS varbinary(max)), @now, inserted.scope, inserted.operation, inserted.id
SELECT {new}
FROM (VALUES {rows}
    ) AS s (n, {names})
WHERE s.n < @P1
    AND NOT EXISTS (SELECT 1 FROM {table} AS h WHERE {key h.} AND {held h.})
    AND NOT EXISTS (SELECT 1 FROM {table} AS r WITH (UPDLOCK, ROWLOCK) WHERE {key r.})
{seek};
END;
";

/// Fails one stale record that must not be taken over; it has no owner then. No row comes back when
/// the record was renewed, sealed or released since its token was read: a repeated claim finds out.
///
/// Row C6.
pub(crate) const ABANDON: &str = "UPDATE {table} SET
    state = 2, result = {result}, sealed_at = @now, sweep_at = NULL,
    attempt_id = 0x00000000000000000000000000000000
OUTPUT 0, {record inserted.}, inserted.result, @now
WHERE {key } AND token = {token}
    AND state = 0 AND lease_ends_at <= @now AND expires_at > @now;
";

/// One row comes back when the claim was held; ownership is checked on the locked row.
///
/// Row S2.
pub(crate) const SEAL: &str = "UPDATE {table} SET
    state = {state}, result = {result}, sealed_at = @now, sweep_at = NULL, expires_at = @now + {retention},
    purge_at = {purge_at }
OUTPUT 1
WHERE {owned };
";

/// [`SEAL`] and [`RELEASE`] for many claims, each at most once in a batch: `@P1` how many rows
/// count, then the values of each. Returns the keys whose claims have ended.
pub(crate) const FINISH_MANY: &str = "UPDATE r SET
    state = {state}, sweep_at = NULL,
    result = CASE WHEN {state} = 3 THEN NULL ELSE {result} END,
    sealed_at = CASE WHEN {state} = 3 THEN r.sealed_at ELSE @now END,
    expires_at = CASE WHEN {state} = 3 THEN 0 ELSE @now + {retention} END,
    purge_at = CASE WHEN {state} = 3 THEN @now ELSE {purge_at r.} END
OUTPUT inserted.scope, inserted.operation, inserted.id
FROM (VALUES {rows}
    ) AS s (n, {names}), {table} AS r WITH (ROWLOCK)
WHERE s.n < @P1 AND {owned r.}
{seek};
";

/// The values of each row of [`FINISH_MANY`].
pub(crate) const FINISH_VALUES: &[Parameter] = &[
    Parameter::Scope,
    Parameter::Operation,
    Parameter::Id,
    Parameter::Token,
    Parameter::AttemptId,
    Parameter::State,
    Parameter::Result,
    Parameter::Retention,
];

/// Reads what a seal or release that changed nothing has met: whether the claim is the latest
/// acquisition, and its state. A plain read: its answer can only have become true.
///
/// Rows S1, S3 and S4, and R1, R2 and R4.
pub(crate) const OWNED: &str = "SELECT r.state, r.result FROM {table} AS r
WHERE {key r.} AND r.token = {token} AND r.attempt_id = {attempt_id}
    AND (r.expires_at > @now OR r.state = 3);
";

/// The row stays, so that the next token is greater whatever the clock does. It counts as absent,
/// and `delete_expired` deletes it like any other.
///
/// Row R3.
pub(crate) const RELEASE: &str = "UPDATE {table} SET
    state = 3, expires_at = 0, purge_at = @now, sweep_at = NULL, result = NULL
OUTPUT 1
WHERE {owned };
";

/// Finds out whether an open transaction holds the key, although a statement that writes found no
/// row of the claim. A server that reads from snapshots and ignores lock hints, as Babelfish does,
/// neither shows an uncommitted row nor waits for it. This statement locks the row, or the missing
/// row's slot in the primary key, and takes all of it back. The lock time-out ends the wait for an
/// open transaction, and is the answer; otherwise nothing comes back.
pub(crate) const PROBE: &str = "BEGIN TRANSACTION;
UPDATE {table} SET state = state
WHERE {key };
IF @@ROWCOUNT = 0
BEGIN
INSERT INTO {table} (token, created_at, lease_ends_at, expires_at, purge_at, attempts, state,
    scope, operation, id, fingerprint, attempt_id)
VALUES (0, 0, 0, 0, 0, 0, 3, {scope}, {operation}, {id}, 0x00, 0x00);
END;
ROLLBACK TRANSACTION;
";

/// Never shortens a lease. After a wait for another renewal, Babelfish may return an end that is
/// too early (see [`CLAIM_BY_INSERT`]), never one that is too late.
///
/// Row N2.
pub(crate) const RENEW: &str = "UPDATE {table} SET
    lease_ends_at = CASE WHEN lease_ends_at < @now + {lease} THEN @now + {lease} ELSE lease_ends_at END,
    expires_at = CASE
        WHEN lease_ends_at < @now + {lease} THEN expires_at + (@now + {lease} - lease_ends_at)
        ELSE expires_at END,
    purge_at = CASE
        WHEN lease_ends_at < @now + {lease} AND purge_at < expires_at + (@now + {lease} - lease_ends_at)
            THEN expires_at + (@now + {lease} - lease_ends_at)
        ELSE purge_at END,
    sweep_at = CASE
        WHEN sweep_at IS NULL THEN NULL
        WHEN lease_ends_at < @now + {lease} THEN @now + {lease}
        ELSE lease_ends_at END
OUTPUT inserted.lease_ends_at, @now
WHERE {owned };
";

pub(crate) const GET: &str = "SELECT 0, {record r.}, CASE WHEN r.state <> 0 THEN r.result END, @now
FROM {table} AS r
WHERE {key r.} AND r.expires_at > @now;
";

/// Skips rows that others have locked (`READPAST`, which a database with `READ_COMMITTED_SNAPSHOT`
/// takes only together with `READCOMMITTEDLOCK`:
/// <https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table>). A row whose token is
/// ahead of the clock (which was set back) is kept, because the next token is made from it. The
/// caller requests fewer rows than the 5,000 locks at which the server would lock the whole table
/// instead:
/// <https://learn.microsoft.com/troubleshoot/sql/database-engine/performance/resolve-blocking-problems-caused-lock-escalation>.
pub(crate) const DELETE_EXPIRED: &str =
    "DELETE TOP ({limit}) FROM {table} WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
WHERE purge_at <= @now AND expires_at <= @now AND token < @now;
SELECT @@ROWCOUNT;
";

/// As for [`DELETE_EXPIRED`]. The condition that `sweep_at` is not null makes the server use the
/// filtered index.
pub(crate) const FAIL_ABANDONED: &str =
    "UPDATE TOP ({limit}) {table} WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) SET
    state = 2, result = {result}, sealed_at = @now, sweep_at = NULL,
    attempt_id = 0x00000000000000000000000000000000
WHERE sweep_at IS NOT NULL AND sweep_at <= @now AND state = 0 AND expires_at > @now;
SELECT @@ROWCOUNT;
";
