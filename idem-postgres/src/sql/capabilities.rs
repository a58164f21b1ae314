//! The statements of checkpoints and watermarks.

/// `$1..$3` key, `$4` token, `$5` attempt id, `$6` the stored form of the checkpoint. One row comes
/// back when the claim was held; ownership is checked on the locked row, as by a renewal.
///
/// A takeover that waits for this row's lock finds the checkpoint in the row. This statement, if it
/// waits for a takeover, finds another token and changes nothing. No indexed column changes, nor do
/// lease and retention.
pub(crate) const CHECKPOINT: &str = concat!(
    "WITH ",
    bounded_clock!(),
    ",
stored AS (
    UPDATE {table} AS r SET result = $6
    FROM clock
    WHERE r.scope = $1 AND r.operation = $2 AND r.id = $3 AND r.token = $4 AND r.attempt_id = $5
        AND r.state = 0 AND r.expires_at > clock.now
    RETURNING 1
)
SELECT 1 FROM stored{restore:1}",
);

/// `$1..$3` key, `$4` token, `$5` attempt id. One row comes back when the claim is held. A plain
/// read: ownership and checkpoint are of one version of the row.
pub(crate) const LAST_CHECKPOINT: &str = concat!(
    "WITH ",
    clock!(),
    "
SELECT r.result FROM {table} AS r, clock
WHERE r.scope = $1 AND r.operation = $2 AND r.id = $3 AND r.token = $4 AND r.attempt_id = $5
    AND r.state = 0 AND r.expires_at > clock.now",
);

/// `$1..$3` source, `$4` version, `$5` retention. Returns one row: NULL when this statement raised
/// the mark, else the mark that is as high already.
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
    WHERE m.scope = $1 AND m.operation = $2 AND m.id = $3
        AND m.version >= $4 AND m.expires_at > clock.now
),
raised AS (
    INSERT INTO {marks} AS m (version, expires_at, scope, operation, id)
    SELECT $4, now + $5, $1, $2, $3 FROM clock WHERE NOT EXISTS (SELECT FROM held)
    ON CONFLICT (scope, operation, id) DO UPDATE
        SET version = excluded.version, expires_at = excluded.expires_at
        WHERE m.version < excluded.version OR m.expires_at <= (SELECT now FROM clock)
    RETURNING 1
)
SELECT CAST(NULL AS bigint) FROM raised
UNION ALL
SELECT version FROM held{restore:1}",
);

/// `$1..$3` source.
pub(crate) const WATERMARK: &str = concat!(
    "WITH ",
    clock!(),
    "
SELECT m.version FROM {marks} AS m, clock
WHERE m.scope = $1 AND m.operation = $2 AND m.id = $3 AND m.expires_at > clock.now",
);

/// `$1` limit. Skips rows that others have locked; a row that was raised since the snapshot is
/// judged again once its lock is held.
pub(crate) const DELETE_EXPIRED_WATERMARKS: &str = concat!(
    "WITH ",
    clock!(),
    ",
purged AS (
    DELETE FROM {marks} WHERE ctid = ANY(ARRAY(
        SELECT m.ctid FROM {marks} AS m
        WHERE m.expires_at <= (SELECT now FROM clock)
        ORDER BY m.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT pg_catalog.count(*) FROM purged"
);
