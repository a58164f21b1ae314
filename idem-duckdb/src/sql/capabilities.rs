//! The statements of checkpoints, watermarks and lists.

/// What a list reads of a record: the columns, with so much of the result that a failure's code and
/// a checkpoint's name are in it (`LISTED_RESULT_BYTES`).
macro_rules! summary {
    () => {
        concat!(
            "SELECT ",
            columns!(
                "0",
                "CASE WHEN state <> 1 THEN array_slice(result, 1, 4096) END"
            ),
            ", {clock}, COALESCE(octet_length(result), 0), scope, operation, id FROM {table} WHERE "
        )
    };
}

/// One record, expired or not.
pub(crate) const SUMMARY: &str = concat!(summary!(), "key = {key}");

/// A page behind a key, in the order of the primary key.
pub(crate) const LIST: &str = concat!(summary!(), "key > {key} ORDER BY key LIMIT {limit}");

/// Takes a forced step: fails or releases the record, if it is live and has the token and the state
/// that the operator has seen. Of several such steps, and the holder's own, one takes effect: the
/// others conflict with it, or see it. The attempt id becomes nobody's.
pub(crate) const FORCE: &str = concat!(
    "UPDATE {table} SET state = {state}, sweep_at = NULL, attempt_id = ",
    nobody!(),
    ",
    result = CASE WHEN {state} = 3 THEN NULL ELSE {result} END,
    sealed_at = CASE WHEN {state} = 3 THEN sealed_at ELSE {clock} END,
    expires_at = CASE WHEN {state} = 3 THEN 0 ELSE {clock} + {retention} END
WHERE key = {key} AND token = {token} AND state = {seen} AND expires_at > {clock}
RETURNING 1",
);

/// Replaces the stored forms of a sealed record, if it is live and has the token and the state that
/// was read. While a record is sealed, no other statement changes its result: a retry of a failure
/// has another token, a deletion another state.
pub(crate) const REWRITE: &str = "UPDATE {table} SET result = {result}, metadata = {metadata}
WHERE key = {key} AND token = {token} AND state = {seen} AND expires_at > {clock}
RETURNING 1";

/// One row comes back when the claim was held. It writes another column than a renewal does, and
/// conflicts with one all the same, because both return.
pub(crate) const CHECKPOINT: &str = concat!(
    "UPDATE {table} SET result = {result} WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > {clock}
RETURNING 1",
);

/// One row comes back when the claim is held; ownership and checkpoint are of one commit.
pub(crate) const LAST_CHECKPOINT: &str = concat!(
    "SELECT result FROM {table} WHERE ",
    owned!(),
    " AND state = 0 AND expires_at > {clock}",
);

/// Reads a mark that is as high already: the answer to a stale version or a repetition. An empty
/// answer proves nothing; [`RAISE`] decides.
pub(crate) const RAISED: &str = "SELECT version FROM {marks}
WHERE key = {key} AND version >= {version} AND expires_at > {clock}";

/// Of any number of statements with one version, the first finds a lower mark: the others conflict
/// with it, or see it. No row comes back when the mark was raised as high since it was read: a
/// repeated advance sees it.
pub(crate) const RAISE: &str =
    "INSERT INTO {marks} AS m (key, scope, operation, id, version, expires_at)
SELECT {key}, {scope}, {operation}, {id}, {version}, now + {retention}
FROM (SELECT {clock} AS now)
ON CONFLICT (key) DO UPDATE SET version = excluded.version, expires_at = excluded.expires_at
    WHERE m.version < excluded.version OR m.expires_at <= {clock}
RETURNING 1";

pub(crate) const WATERMARK: &str =
    "SELECT version FROM {marks} WHERE key = {key} AND expires_at > {clock}";

/// A mark that is raised meanwhile is a conflict.
pub(crate) const DELETE_EXPIRED_WATERMARKS: &str = "DELETE FROM {marks} WHERE key IN (
    SELECT key FROM {marks} WHERE expires_at <= {clock}
    ORDER BY expires_at LIMIT {limit})
RETURNING 1";
