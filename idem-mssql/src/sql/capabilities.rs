//! The statements of checkpoints and watermarks.

/// One row comes back when the claim was held; ownership is checked on the locked row. A takeover
/// that waits for the lock finds the checkpoint in the row; this statement, if it waits for a
/// takeover, finds another token.
pub(crate) const CHECKPOINT: &str = "UPDATE {table} SET result = {result}
OUTPUT 1
WHERE {owned };
";

/// The values of [`CHECKPOINT`].
pub(crate) const CHECKPOINT_VALUES: &[&str] =
    &["scope", "operation", "id", "token", "attempt_id", "result"];

/// One row comes back when the claim is held. A plain read: ownership and checkpoint are of one
/// version of the row.
pub(crate) const LAST_CHECKPOINT: &str = "SELECT r.result FROM {table} AS r
WHERE {owned r.};
";

/// A row with 1 when this request raised the mark, with 0 and the mark when that is as high
/// already.
///
/// Such a mark is found by the read, and then nothing is written, and no lock is taken but that of
/// a read. That it finds none is never taken as proof. Two may both find no row: the primary key
/// lets one in, and 2627 tells the other, which then asks again; a lock on the key's gap would keep
/// the neighbouring sources of an open transaction waiting. The update judges its condition on the
/// locked, latest version of the row, so of any number of requests with one version the first is
/// let through, and the others find it raised and update nothing. Writing happens in one of the two
/// only.
///
/// No row comes back when the mark was raised as high between the statements, or its row went:
/// asking again tells.
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

/// The read that [`ADVANCE`] begins with, by itself: see [`LOOK`](super::LOOK).
pub(crate) const LOOK_AT_MARK: &str = "SELECT 0, m.version FROM {marks} AS m
WHERE {key m.} AND m.version >= {version} AND m.expires_at > @now;
";

/// The values of [`ADVANCE`].
pub(crate) const ADVANCE_VALUES: &[&str] = &["scope", "operation", "id", "version", "retention"];

pub(crate) const WATERMARK: &str = "SELECT m.version FROM {marks} AS m
WHERE {key m.} AND m.expires_at > @now;
";

/// As for [`DELETE_EXPIRED`](super::DELETE_EXPIRED): locked rows are passed over, and no more are
/// taken than stay below the locks at which the server would lock the table.
pub(crate) const DELETE_EXPIRED_WATERMARKS: &str =
    "DELETE TOP ({limit}) FROM {marks} WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
WHERE expires_at <= @now;
SELECT @@ROWCOUNT;
";
