//! The statements of `delete_expired` and `fail_abandoned`.

/// The condition for rows to delete. They include abandoned records that expired before
/// `fail_abandoned` failed them, so it searches from zero on, and below zero among the ended
/// leases. A row whose token is ahead of the clock (which was set back) is kept, because the next
/// token is made from it.
macro_rules! expired {
    () => {
        concat!(
            "(purge_at BETWEEN 0 AND ",
            now!(),
            " OR purge_at <= ",
            now!(),
            " - ",
            below!(),
            ") AND expires_at <= ",
            now!(),
            " AND token < ",
            now!()
        )
    };
}

/// Locks the records to delete; skips rows that others have locked. In a transaction with
/// [`DELETE_EXPIRED`].
pub(crate) const EXPIRED: &str = concat!(
    "SELECT scope, operation, id FROM {table} WHERE ",
    expired!(),
    " ORDER BY purge_at LIMIT {limit} FOR UPDATE SKIP LOCKED"
);

/// Keys. Their rows are locked, and are judged once more all the same.
pub(crate) const DELETE_EXPIRED: &str =
    concat!("DELETE FROM {table} WHERE ({keys}) AND ", expired!());

macro_rules! abandoned {
    () => {
        concat!(
            "purge_at <= ",
            now!(),
            " - ",
            below!(),
            " AND sweep_at <= ",
            now!(),
            " AND state = 0 AND expires_at > ",
            now!()
        )
    };
}

/// Locks the records to fail; skips rows that others have locked. In a transaction with
/// [`FAIL_ABANDONED`].
pub(crate) const ABANDONED: &str = concat!(
    "SELECT scope, operation, id FROM {table} WHERE ",
    abandoned!(),
    " ORDER BY purge_at LIMIT {limit} FOR UPDATE SKIP LOCKED"
);

/// Their rows are locked, and are judged once more all the same.
pub(crate) const FAIL_ABANDONED: &str = concat!(
    "UPDATE {table} SET state = 2, result = {result}, sealed_at = ",
    now!(),
    ", attempt_id = x'00000000000000000000000000000000', sweep_at = NULL,
    purge_at = GREATEST(purge_at, expires_at)
WHERE ({keys}) AND ",
    abandoned!()
);
