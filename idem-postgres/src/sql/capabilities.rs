//! The statements of checkpoints, watermarks and lists.

/// What a list reads of a record: the columns, with so much of the result that a failure's code and
/// a checkpoint's name are in it (`LISTED_RESULT_BYTES`). The clock is a subquery, so that the order
/// of the primary key is that of the answer.
macro_rules! summary {
    () => {
        concat!(
            "WITH ",
            clock!(),
            "
SELECT false, ",
            columns!(
                "CASE WHEN r.state <> 1 THEN pg_catalog.substring(r.result, 1, 4096) END",
                "(SELECT now FROM clock)"
            ),
            ",
    CAST(COALESCE(pg_catalog.octet_length(r.result), 0) AS bigint), r.scope, r.operation, r.id
FROM {table} AS r WHERE "
        )
    };
}

/// One record, expired or not. `octet_length` reads no page of a result that is stored out of line.
pub(crate) const SUMMARY: &str = concat!(
    summary!(),
    "r.scope = {scope} AND r.operation = {operation} AND r.id = {id}"
);

/// A page behind a key: a range of the primary key, in its order.
pub(crate) const LIST: &str = concat!(
    summary!(),
    "(r.id, r.operation, r.scope) > ({id}, {operation}, {scope})
ORDER BY r.id, r.operation, r.scope LIMIT {limit}",
);

/// Takes a forced step: fails or releases the record, if it is live and has the token and the state
/// that the operator has seen. Judged on the locked, latest version, so of several such steps, and
/// the holder's own, one finds the record so. The attempt id becomes nobody's.
pub(crate) const FORCE: &str = concat!(
    "WITH ",
    bounded_clock!(),
    ",
forced AS (
    UPDATE {table} AS r
    SET state = {state}, sweep_at = NULL, purge_at = clock.now + {retention},
        attempt_id = pg_catalog.decode('00000000000000000000000000000000', 'hex'),
        result = CASE WHEN {state} = 3 THEN NULL ELSE {result} END,
        sealed_at = CASE WHEN {state} = 3 THEN r.sealed_at ELSE clock.now END,
        expires_at = CASE WHEN {state} = 3 THEN 0 ELSE clock.now + {retention} END
    FROM clock
    WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token}
        AND r.state = {seen} AND r.expires_at > clock.now
    RETURNING 1 AS one{notified:, pg_catalog.pg_notify('{channel}', {topic}):}
)
SELECT one FROM forced{restore:1}",
);

/// Replaces the stored forms of a sealed record, if it is live and has the token and the state that
/// was read. Judged on the locked, latest version. While a record is sealed, no other statement
/// changes its result: a retry of a failure has another token, a deletion another state. No indexed
/// column changes.
pub(crate) const REWRITE: &str = concat!(
    "WITH ",
    bounded_clock!(),
    ",
rewritten AS (
    UPDATE {table} AS r SET result = {result}, metadata = {metadata}
    FROM clock
    WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token}
        AND r.state = {seen} AND r.expires_at > clock.now
    RETURNING 1
)
SELECT 1 FROM rewritten{restore:1}",
);

/// One row comes back when the claim was held; ownership is checked on the locked row, as by a
/// renewal.
///
/// A takeover that waits for this row's lock finds the checkpoint in the row. This statement, if it
/// waits for a takeover, finds another token and changes nothing. No indexed column changes, nor do
/// lease and retention.
pub(crate) const CHECKPOINT: &str = concat!(
    "WITH ",
    bounded_clock!(),
    ",
stored AS (
    UPDATE {table} AS r SET result = {result}
    FROM clock
    WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token} AND r.attempt_id = {attempt_id}
        AND r.state = 0 AND r.expires_at > clock.now
    RETURNING 1
)
SELECT 1 FROM stored{restore:1}",
);

/// One row comes back when the claim is held. A plain read: ownership and checkpoint are of one
/// version of the row.
pub(crate) const LAST_CHECKPOINT: &str = concat!(
    "WITH ",
    clock!(),
    "
SELECT r.result FROM {table} AS r, clock
WHERE ",
    on_primary!(),
    " AND r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token} AND r.attempt_id = {attempt_id}
    AND r.state = 0 AND r.expires_at > clock.now",
);

/// Returns one row: NULL when this statement raised the mark, else the mark that is as high
/// already.
///
/// The read `held` finds such a mark, and then nothing is written, as by a claim. Otherwise the
/// upsert decides: its condition is judged on the locked, latest version of the row. So of any
/// number of statements with one version the first is let through, and the others find the mark
/// raised and update nothing. The returned row proves which one raised it.
///
/// No row comes back when the mark was raised as high between the snapshot and the upsert. A
/// repeated advance sees it.
pub(crate) const ADVANCE: &str = concat!(
    "WITH ",
    bounded_clock!(),
    ",
held AS MATERIALIZED (
    SELECT m.version FROM {marks} AS m, clock
    WHERE m.scope = {scope} AND m.operation = {operation} AND m.id = {id}
        AND m.version >= {version} AND m.expires_at > clock.now
),
raised AS (
    INSERT INTO {marks} AS m (version, expires_at, scope, operation, id)
    SELECT {version}, now + {retention}, {scope}, {operation}, {id} FROM clock WHERE NOT EXISTS (SELECT FROM held)
    ON CONFLICT (scope, operation, id) DO UPDATE
        SET version = excluded.version, expires_at = excluded.expires_at
        WHERE m.version < excluded.version OR m.expires_at <= (SELECT now FROM clock)
    RETURNING 1
)
SELECT CAST(NULL AS bigint) FROM raised
UNION ALL
SELECT version FROM held{restore:1}",
);

pub(crate) const WATERMARK: &str = concat!(
    "WITH ",
    clock!(),
    "
SELECT m.version FROM {marks} AS m, clock
WHERE ",
    on_primary!(),
    " AND m.scope = {scope} AND m.operation = {operation} AND m.id = {id} AND m.expires_at > clock.now",
);

/// Skips rows that others have locked; a row that was raised since the snapshot is judged again
/// once its lock is held.
pub(crate) const DELETE_EXPIRED_WATERMARKS: &str = concat!(
    "WITH ",
    clock!(),
    ",
purged AS (
    DELETE FROM {marks} WHERE ctid = ANY(ARRAY(
        SELECT m.ctid FROM {marks} AS m
        WHERE m.expires_at <= (SELECT now FROM clock)
        ORDER BY m.expires_at LIMIT {limit} FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT pg_catalog.count(*) FROM purged"
);
