//! The statements of checkpoints, watermarks and lists.

/// What a list reads of a record: the columns, with so much of the result that a failure's code and
/// a checkpoint's name are in it (`LISTED_RESULT_BYTES`).
macro_rules! summary {
    () => {
        concat!(
            "SELECT ",
            columns!("0", "CASE WHEN state <> 1 THEN substr(result, 1, 4096) END"),
            ", COALESCE(length(result), 0), scope, operation, id FROM {table} WHERE "
        )
    };
}

/// One record, expired or not. `length` of a BLOB reads no page of its content.
pub(crate) const SUMMARY: &str = concat!(summary!(), key!());

/// A page behind a key: a range of the primary key, in its order.
pub(crate) const LIST: &str = concat!(
    summary!(),
    "(id, operation, scope) > ({id}, {operation}, {scope})
ORDER BY id, operation, scope LIMIT {limit}",
);

/// Takes a forced step: fails or releases the record, if it is live and has the token and the state
/// that the operator has seen. Judged on the locked, latest version, so of several such steps, and
/// the holder's own, one finds the record so. The attempt id becomes nobody's.
pub(crate) const FORCE: &str = concat!(
    "UPDATE {table} SET state = {state}, sweep_at = NULL, attempt_id = zeroblob(16),
    result = CASE WHEN {state} = 3 THEN NULL ELSE {result} END,
    sealed_at = CASE WHEN {state} = 3 THEN sealed_at ELSE ",
    now!(),
    " END,
    expires_at = CASE WHEN {state} = 3 THEN 0 ELSE ",
    now!(),
    " + {retention} END,
    purge_at = ",
    now!(),
    " + {retention}
WHERE ",
    key!(),
    " AND token = {token} AND state = {seen} AND expires_at > ",
    now!(),
    " RETURNING 1",
);

/// Replaces the stored forms of a sealed record, if it is live and has the token and the state that
/// was read. Judged under the write lock. While a record is sealed, no other statement
/// changes its result: a retry of a failure has another token, a deletion another state. No indexed
/// column changes.
pub(crate) const REWRITE: &str = concat!(
    "UPDATE {table} SET result = {result}, metadata = {metadata} WHERE ",
    key!(),
    " AND token = {token} AND state = {seen} AND expires_at > ",
    now!(),
    " RETURNING 1",
);

/// One row comes back when the claim was held: ownership is judged under the write lock, as by a
/// renewal.
pub(crate) const CHECKPOINT: &str = concat!(
    "UPDATE {table} SET result = {result} WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > ",
    now!(),
    " RETURNING 1",
);

/// One row comes back when the claim is held; ownership and checkpoint are of one commit.
pub(crate) const LAST_CHECKPOINT: &str = concat!(
    "SELECT result FROM {table} WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > ",
    now!(),
);

/// Reads a mark that is as high already: the answer to a stale version or a repetition, without the
/// write lock. An empty answer proves nothing; [`RAISE`] decides.
pub(crate) const RAISED: &str = concat!(
    "SELECT version FROM {marks} WHERE ",
    key!(),
    " AND version >= {version} AND expires_at > ",
    now!(),
);

/// Runs under the write lock, so the mark that it judges is the latest. Of any number of statements
/// with one version, the first finds a lower mark. No row comes back when the mark was raised as
/// high since it was read: a repeated advance sees it.
pub(crate) const RAISE: &str = concat!(
    "INSERT INTO {marks} AS m (scope, operation, id, version, expires_at)
SELECT {scope}, {operation}, {id}, {version}, now + {retention} FROM (SELECT ",
    now!(),
    " AS now) WHERE true
ON CONFLICT (scope, operation, id) DO UPDATE
    SET version = excluded.version, expires_at = excluded.expires_at
    WHERE m.version < excluded.version OR m.expires_at <= ",
    now!(),
    "
RETURNING 1",
);

pub(crate) const WATERMARK: &str = concat!(
    "SELECT version FROM {marks} WHERE ",
    key!(),
    " AND expires_at > ",
    now!(),
);

/// Chosen and deleted under one write lock.
pub(crate) const DELETE_EXPIRED_WATERMARKS: &str = concat!(
    "DELETE FROM {marks} WHERE rowid IN (
    SELECT rowid FROM {marks} WHERE expires_at <= ",
    now!(),
    "
    ORDER BY expires_at LIMIT {limit})
RETURNING 1",
);
