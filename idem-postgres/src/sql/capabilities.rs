//! The statements of checkpoints and watermarks.

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
WHERE r.scope = {scope} AND r.operation = {operation} AND r.id = {id} AND r.token = {token} AND r.attempt_id = {attempt_id}
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
WHERE m.scope = {scope} AND m.operation = {operation} AND m.id = {id} AND m.expires_at > clock.now",
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
