//! The statements of checkpoints, watermarks and lists.

/// What a list reads of a record: the columns, with so much of the result that a failure's code and
/// a checkpoint's name are in it (`LISTED_RESULT_BYTES`). A page is a derived table, so each column
/// has a name.
macro_rules! summary {
    () => {
        "0 AS won, {record r.},
    CASE WHEN r.state <> 1 THEN SUBSTRING(r.result, 1, 4096) END AS result, @now AS now,
    COALESCE(CAST(DATALENGTH(r.result) AS bigint), 0) AS bytes, r.scope, r.operation, r.id
FROM {table} AS r
WHERE "
    };
}

/// One record, expired or not.
pub(crate) const SUMMARY: &str = concat!("SELECT ", summary!(), "{key r.};\n");

/// A page behind a key: three seeks of the primary key, each in its order. A condition with `OR`
/// may be answered by a scan of the table.
pub(crate) const LIST: &str = concat!(
    "SELECT TOP ({limit}) * FROM (
SELECT * FROM (SELECT TOP ({limit}) ",
    summary!(),
    "r.scope = {scope} AND r.operation = {operation} AND r.id > {id}
ORDER BY r.id) AS a
UNION ALL
SELECT * FROM (SELECT TOP ({limit}) ",
    summary!(),
    "r.scope = {scope} AND r.operation > {operation}
ORDER BY r.operation, r.id) AS b
UNION ALL
SELECT * FROM (SELECT TOP ({limit}) ",
    summary!(),
    "r.scope > {scope}
ORDER BY r.scope, r.operation, r.id) AS c
) AS page
ORDER BY scope, operation, id;
",
);

/// Takes a forced step: fails or releases the record, if it is live and has the token and the state
/// that the operator has seen. Judged on the locked, latest version, so of several such steps, and
/// the holder's own, one finds the record so. The attempt id becomes nobody's.
pub(crate) const FORCE: &str = "UPDATE {table} SET
    state = {state}, sweep_at = NULL, purge_at = @now + {retention},
    attempt_id = 0x00000000000000000000000000000000,
    result = CASE WHEN {state} = 3 THEN NULL ELSE {result} END,
    sealed_at = CASE WHEN {state} = 3 THEN sealed_at ELSE @now END,
    expires_at = CASE WHEN {state} = 3 THEN 0 ELSE @now + {retention} END
OUTPUT 1
WHERE {key } AND token = {token} AND state = {seen} AND expires_at > @now;
";

/// Replaces the stored forms of a sealed record, if it is live and has the token and the state that
/// was read. Judged on the locked, latest version. While a record is sealed, no other statement
/// changes its result: a retry of a failure has another token, a deletion another state. No indexed
/// column changes.
pub(crate) const REWRITE: &str = "UPDATE {table} SET
    result = {result}, metadata = NULLIF({metadata}, N'')
OUTPUT 1
WHERE {key } AND token = {token} AND state = {seen} AND expires_at > @now;
";

/// One row comes back when the claim was held; ownership is checked on the locked row. A takeover
/// that waits for the lock finds the checkpoint in the row. This statement, if it waits for a
/// takeover, finds another token.
pub(crate) const CHECKPOINT: &str = "UPDATE {table} SET result = {result}
OUTPUT 1
WHERE {owned };
";

/// One row comes back when the claim is held. A plain read: ownership and checkpoint are of one
/// version of the row.
pub(crate) const LAST_CHECKPOINT: &str = "SELECT r.result FROM {table} AS r
WHERE {owned r.};
";

/// Returns a row with 1 when this request raised the mark, or with 0 and the mark when that is as
/// high already.
///
/// The read finds such a mark; then nothing is written, and only a read's lock is taken. An empty
/// result is never taken as proof. Two requests may both find no row: the primary key lets one in,
/// and the other gets 2627 and repeats its advance. A lock on the key's gap would make neighbouring
/// sources wait for an open transaction.
///
/// The update judges its condition on the locked, latest version of the row. So of any number of
/// requests with one version the first is let through, and the others find the mark raised and
/// update nothing. Only one of insert and update writes.
///
/// No row comes back when the mark was raised as high between the statements, or its row was
/// deleted: a repeated advance finds out.
pub(crate) const ADVANCE: &str = "SELECT 0, m.version FROM {marks} AS m
WHERE {key m.} AND m.version >= {version} AND m.expires_at > @now;
IF @@ROWCOUNT = 0
BEGIN
INSERT INTO {marks} (scope, operation, id, version, expires_at)
OUTPUT 1, inserted.version
SELECT {scope}, {operation}, {id}, {version}, @now + {retention}
WHERE NOT EXISTS (SELECT 1 FROM {marks} AS m WITH (UPDLOCK, ROWLOCK) WHERE {key m.});
IF @@ROWCOUNT = 0
BEGIN
UPDATE {marks} SET version = {version}, expires_at = @now + {retention}
OUTPUT 1, inserted.version
WHERE {key } AND (version < {version} OR expires_at <= @now);
END;
END;
";

/// The read that [`ADVANCE`] begins with, by itself: see [`LOOKUP`](super::LOOKUP).
pub(crate) const LOOKUP_AT_MARK: &str = "SELECT 0, m.version FROM {marks} AS m
WHERE {key m.} AND m.version >= {version} AND m.expires_at > @now;
";

pub(crate) const WATERMARK: &str = "SELECT m.version FROM {marks} AS m
WHERE {key m.} AND m.expires_at > @now;
";

/// As for [`DELETE_EXPIRED`](super::DELETE_EXPIRED): skips locked rows, and takes fewer rows than
/// the locks at which the server would lock the table.
pub(crate) const DELETE_EXPIRED_WATERMARKS: &str =
    "DELETE TOP ({limit}) FROM {marks} WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
WHERE expires_at <= @now;
SELECT @@ROWCOUNT;
";
