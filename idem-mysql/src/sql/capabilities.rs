//! The statements of checkpoints, watermarks and lists.

/// What a list reads of a record: the columns, with so much of the result that a failure's code and
/// a checkpoint's name are in it (`LISTED_RESULT_BYTES`).
macro_rules! summary {
    () => {
        concat!(
            "SELECT 0, state, token, attempts, fingerprint, created_at, expires_at, lease_ends_at,
    sweep_at IS NOT NULL, sealed_at, metadata, CASE WHEN state <> 1 THEN LEFT(result, 4096) END, ",
            now!(),
            ",
    COALESCE(LENGTH(result), 0), scope, operation, id
FROM {table} WHERE "
        )
    };
}

/// One record, expired or not.
pub(crate) const SUMMARY: &str = concat!(summary!(), key!());

/// A page behind a key: three ranges of the primary key, each in its order. The servers do not
/// search an index by the comparison of rows
/// (<https://dev.mysql.com/doc/refman/8.4/en/row-constructor-optimization.html>).
pub(crate) const LIST: &str = concat!(
    "(",
    summary!(),
    "scope = {scope} AND operation = {operation} AND id > {id} ORDER BY id LIMIT {limit})
UNION ALL
(",
    summary!(),
    "scope = {scope} AND operation > {operation} ORDER BY operation, id LIMIT {limit})
UNION ALL
(",
    summary!(),
    "scope > {scope} ORDER BY scope, operation, id LIMIT {limit})
ORDER BY scope, operation, id LIMIT {limit}",
);

/// Takes a forced step: fails or releases the record, if it is live and has the token and the state
/// that the operator has seen. Judged on the locked, latest version, so of several such steps, and
/// the holder's own, one finds the record so. The attempt id becomes nobody's.
pub(crate) const FORCE: &str = concat!(
    "{brief}UPDATE {table} SET state = {state}, sweep_at = NULL,
    attempt_id = x'00000000000000000000000000000000',
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
    "{free}"
);

/// Replaces the stored forms of a sealed record, if it is live and has the token and the state that
/// was read. Judged on the locked, latest version. While a record is sealed, no other statement
/// changes its result: a retry of a failure has another token, a deletion another state. No indexed
/// column changes.
///
/// The same forms once more change nothing: without CLIENT_FOUND_ROWS the count is then 0.
pub(crate) const REWRITE: &str = concat!(
    "{brief}UPDATE {table} SET result = {result}, metadata = {metadata} WHERE ",
    key!(),
    " AND token = {token} AND state = {seen} AND expires_at > ",
    now!(),
    "{free}"
);

/// One row matches when the claim was held; ownership is judged on the locked, latest version. A
/// takeover that waits for the lock finds the checkpoint in the row. This statement, if it waits
/// for a takeover, finds another token.
///
/// The same checkpoint once more changes nothing: without CLIENT_FOUND_ROWS the count is then 0,
/// and [`LAST_CHECKPOINT`] shows whether the claim is held.
pub(crate) const CHECKPOINT: &str = concat!(
    "{brief}UPDATE {table} SET result = {result} WHERE ",
    key!(),
    " AND token = {token} AND attempt_id = {attempt_id} AND state = 0 AND expires_at > ",
    now!(),
    "{free}"
);

/// Returns a row when the claim is held, and was held until now: a lost claim is never held again.
pub(crate) const LAST_CHECKPOINT: &str = concat!(
    "(SELECT result FROM {table} WHERE ",
    key!(),
    " AND token = {token} AND attempt_id = {attempt_id} AND state = 0 AND expires_at > ",
    now!(),
    ")"
);

/// Reads the mark, and whether it has expired. A consistent read: it locks nothing, writes
/// nothing, and answers a stale version or a repetition.
pub(crate) const WATERMARK: &str = concat!(
    "(SELECT version, expires_at > ",
    now!(),
    " FROM {marks} WHERE ",
    key!(),
    ")"
);

/// The primary key lets one row in; all other statements wait for it and find it. IGNORE, because its count distinguishes the two, 1 and 0, under every
/// CLIENT_FOUND_ROWS; the count of ON DUPLICATE KEY UPDATE does not. IGNORE can hide no other
/// error, because the values fit their columns
/// (<https://dev.mysql.com/doc/refman/8.4/en/insert.html>).
pub(crate) const FIRST_MARK: &str = concat!(
    "{brief}INSERT IGNORE INTO {marks} (scope, operation, id, version, expires_at)
VALUES ({scope}, {operation}, {id}, {version}, ",
    now!(),
    " + {retention}{probe_mark})"
);

/// The same without a probe, for a caller's transaction, which may lock gaps.
pub(crate) const FIRST_MARK_PLAIN: &str = concat!(
    "{brief}INSERT IGNORE INTO {marks} (scope, operation, id, version, expires_at)
VALUES ({scope}, {operation}, {id}, {version}, ",
    now!(),
    " + {retention})"
);

/// Raises an existing mark that is lower, or has expired.
/// Judged on the locked, latest version of the row, so of any number of statements with one version
/// the first is let through. A row that matches always changes (a higher version, or a later end),
/// so the count is the same with and without CLIENT_FOUND_ROWS.
pub(crate) const RAISE: &str = concat!(
    "{brief}UPDATE {marks} SET version = {version}, expires_at = ",
    now!(),
    " + {retention} WHERE ",
    key!(),
    " AND (version < {version} OR expires_at <= ",
    now!(),
    "){free_mark}"
);

/// Locks the marks to delete; skips rows that others have locked. In a transaction with
/// [`DELETE_EXPIRED_WATERMARKS`].
pub(crate) const EXPIRED_WATERMARKS: &str = concat!(
    "SELECT scope, operation, id FROM {marks} WHERE expires_at <= ",
    now!(),
    " ORDER BY expires_at LIMIT {limit} FOR UPDATE SKIP LOCKED"
);

/// Keys. Their rows are locked, and are judged once more all the same.
pub(crate) const DELETE_EXPIRED_WATERMARKS: &str = concat!(
    "DELETE FROM {marks} WHERE ({keys}) AND expires_at <= ",
    now!()
);
