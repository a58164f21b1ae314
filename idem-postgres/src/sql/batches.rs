//! The statements of batches.

/// Whether a row has an input's key. No hash join can use this comparison, so the server reads each
/// row by the primary key. With `=` it scans the whole table, because it took the table for small
/// when the statement was prepared: it plans a prepared statement anew only after an ANALYZE, which
/// a new table waits for up to a minute.
///
/// For the same reason the statements put their other conditions into CASE: from `r.state = 0` the
/// planner would take the records in flight for one or two, and scan the table for them.
macro_rules! of_input {
    () => {
        "r.scope = ANY (ARRAY[input.scope]) AND r.operation = ANY (ARRAY[input.operation])
        AND r.id = ANY (ARRAY[input.id])"
    };
}

/// [`INSERT`](super::INSERT) for many keys, each at most once in a batch: its values are arrays.
/// The rows go in by the order of the arrays, which are sorted by key.
pub(crate) const INSERT_MANY: &str = concat!(
    "INSERT INTO {table} (",
    insert_columns!(),
    ")
SELECT now, now, now + lease, now + lease + retention, now + lease + retention,
    CASE WHEN fail_on_stale THEN now + lease END, 1, 0,
    scope, operation, id, fingerprint, attempt_id, metadata
FROM (SELECT ",
    instant!(),
    " AS now, {bound}) AS clock, unnest(
        CAST({scope} AS pg_catalog.text[]), CAST({operation} AS pg_catalog.text[]), CAST({id} AS pg_catalog.text[]), CAST({fingerprint} AS pg_catalog.bytea[]),
        CAST({attempt_id} AS pg_catalog.bytea[]), CAST({lease} AS bigint[]), CAST({retention} AS bigint[]), CAST({fails_when_stale} AS boolean[]),
        CAST({metadata} AS pg_catalog.text[])
    ) WITH ORDINALITY AS input (scope, operation, id, fingerprint, attempt_id, lease, retention,
        fail_on_stale, metadata, number)
ORDER BY number
ON CONFLICT (scope, operation, id) DO NOTHING
RETURNING token, lease_ends_at, scope, operation, id",
);

/// [`LOOKUP`](super::LOOKUP) for many callers: its values are arrays, in which a key may occur
/// more than once. The last column is the row's index in the arrays.
pub(crate) const LOOKUP_MANY: &str = concat!(
    "SELECT r.attempt_id = input.attempt_id, ",
    columns!(
        "CASE WHEN r.fingerprint = input.fingerprint AND r.state <> 0 THEN r.result END",
        "pg_catalog.clock_timestamp()"
    ),
    ", input.number
FROM unnest(
    CAST({scope} AS pg_catalog.text[]), CAST({operation} AS pg_catalog.text[]), CAST({id} AS pg_catalog.text[]), CAST({fingerprint} AS pg_catalog.bytea[]),
    CAST({attempt_id} AS pg_catalog.bytea[])
) WITH ORDINALITY AS input (scope, operation, id, fingerprint, attempt_id, number)
JOIN {table} AS r ON ",
    of_input!(),
    "
WHERE ",
    on_primary!()
);

/// [`GET`](super::GET) for many keys: its values are arrays. The last column is the row's index in
/// them.
pub(crate) const GET_MANY: &str = concat!(
    "SELECT false, ",
    columns!(
        "CASE WHEN r.state <> 0 THEN r.result END",
        "pg_catalog.clock_timestamp()"
    ),
    ", input.number
FROM unnest(
    CAST({scope} AS pg_catalog.text[]), CAST({operation} AS pg_catalog.text[]), CAST({id} AS pg_catalog.text[])
) WITH ORDINALITY AS input (scope, operation, id, number)
JOIN {table} AS r ON ",
    of_input!(),
    "
WHERE ",
    on_primary!(),
);

/// [`CLAIM`](super::CLAIM) for many keys, each at most once in a batch: its values are arrays.
///
/// Rows are locked in the order of their keys, so that two batches never wait for each other in a
/// circle. A key that comes back neither won nor held is claimed again.
pub(crate) const CLAIM_MANY: &str = concat!(
    "WITH ",
    bounded_clock!(),
    ",
input AS MATERIALIZED (
    SELECT * FROM unnest(
        CAST({scope} AS pg_catalog.text[]), CAST({operation} AS pg_catalog.text[]), CAST({id} AS pg_catalog.text[]), CAST({fingerprint} AS pg_catalog.bytea[]),
        CAST({attempt_id} AS pg_catalog.bytea[]), CAST({lease} AS bigint[]), CAST({retention} AS bigint[]), CAST({fails_when_stale} AS boolean[]),
        CAST({retries_failed} AS boolean[]), CAST({metadata} AS pg_catalog.text[])
    ) AS input (scope, operation, id, fingerprint, attempt_id, lease, retention, fail_on_stale,
        retry_failed, metadata)
),
held AS MATERIALIZED (
    SELECT r.*, r.fingerprint = input.fingerprint AS same FROM clock, input JOIN {table} AS r ON ",
    of_input!(),
    "
    WHERE CASE WHEN r.expires_at > clock.now
        THEN NOT (r.fingerprint = input.fingerprint AND (
            r.state = 0 AND r.attempt_id = input.attempt_id
            OR r.state = 0 AND r.lease_ends_at <= clock.now
                AND r.sweep_at IS NULL AND NOT input.fail_on_stale
            OR r.state = 2 AND input.retry_failed)) END
),
won AS (
    INSERT INTO {table} AS r (",
    insert_columns!(),
    ")
    SELECT now, now, now + lease, now + lease + retention, now + lease + retention,
        CASE WHEN fail_on_stale THEN now + lease END, 1, 0,
        scope, operation, id, fingerprint, attempt_id, metadata
    FROM clock, input
    WHERE NOT EXISTS (
        SELECT FROM held
        WHERE held.scope = input.scope AND held.operation = input.operation AND held.id = input.id)
    ORDER BY scope COLLATE pg_catalog.\"C\", operation COLLATE pg_catalog.\"C\", id COLLATE pg_catalog.\"C\"
    ",
    acquire_existing!(
        "EXISTS (SELECT FROM input WHERE input.retry_failed AND input.scope = r.scope
            AND input.operation = r.operation AND input.id = r.id)"
    ),
    "
    RETURNING r.*
)
SELECT true, ",
    columns!("CAST(NULL AS pg_catalog.bytea)"),
    ", r.scope, r.operation, r.id FROM won AS r, clock
UNION ALL
SELECT false, ",
    columns!("CASE WHEN r.same AND r.state <> 0 THEN r.result END"),
    ", r.scope, r.operation, r.id FROM held AS r, clock",
);

/// [`SEAL`](super::SEAL) and [`RELEASE`](super::RELEASE) for many claims, each at most once in a
/// batch: the values are arrays. Returns the indexes of the ended claims in the arrays.
pub(crate) const FINISH_MANY: &str = concat!(
    "WITH ",
    bounded_clock!(),
    "
UPDATE {table} AS r
SET state = input.state, sweep_at = NULL,
    result = CASE WHEN input.state = 3 THEN NULL ELSE input.result END,
    sealed_at = CASE WHEN input.state = 3 THEN r.sealed_at ELSE clock.now END,
    expires_at = CASE WHEN input.state = 3 THEN 0 ELSE clock.now + input.retention END,
    purge_at = CASE WHEN input.state = 3 THEN clock.now ELSE ",
    purge_at!(
        "r.purge_at",
        "(clock.now + input.retention)",
        "input.retention"
    ),
    " END
FROM clock, unnest(
    CAST({scope} AS pg_catalog.text[]), CAST({operation} AS pg_catalog.text[]), CAST({id} AS pg_catalog.text[]), CAST({token} AS bigint[]),
    CAST({attempt_id} AS pg_catalog.bytea[]), CAST({state} AS bigint[]), CAST({result} AS pg_catalog.bytea[]),
    CAST({retention} AS bigint[]){notified:, CAST({topic} AS pg_catalog.text[]):}
) WITH ORDINALITY AS input (scope, operation, id, token, attempt_id, state, result, retention
    {notified:, topic:}, number)
WHERE ",
    of_input!(),
    "
    AND r.token IS NOT DISTINCT FROM input.token
    AND r.attempt_id IS NOT DISTINCT FROM input.attempt_id
    AND CASE r.state WHEN 0 THEN r.expires_at > clock.now END
RETURNING input.number{notified:, pg_catalog.pg_notify('{channel}', input.topic):}",
);
