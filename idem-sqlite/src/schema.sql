-- idem records, schema version 1. Instants are microseconds since 1970-01-01T00:00:00Z.
-- datetime(expires_at / 1000000, 'unixepoch') shows one as a time.
CREATE TABLE IF NOT EXISTS {table} (
    scope         TEXT    NOT NULL COLLATE BINARY,
    operation     TEXT    NOT NULL COLLATE BINARY,
    id            TEXT    NOT NULL COLLATE BINARY,
    token         INTEGER NOT NULL,  -- fencing token of the latest acquisition
    state         INTEGER NOT NULL,  -- 0 in flight, 1 completed, 2 failed, 3 released
    attempts      INTEGER NOT NULL,  -- acquisitions since the key was fresh
    created_at    INTEGER NOT NULL,  -- first seen
    lease_ends_at INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,  -- the key is fresh from here on; 0 when released
    purge_at      INTEGER NOT NULL,  -- not before expires_at, and at most an eighth of the retention later
    sealed_at     INTEGER,           -- when completed or failed
    sweep_at      INTEGER,           -- lease_ends_at while in flight and not to be taken over
    fingerprint   BLOB    NOT NULL,  -- scheme and SHA-256
    attempt_id    BLOB    NOT NULL,  -- who holds it; zeros: nobody
    metadata      TEXT,              -- JSON
    result        BLOB,              -- the sealed response or failure; while in flight, the last checkpoint
    PRIMARY KEY (id, operation, scope)  -- ids differ most, so most comparisons end with them
);
CREATE INDEX IF NOT EXISTS "{prefix}_purge_at" ON {table} (purge_at);
CREATE INDEX IF NOT EXISTS "{prefix}_sweep_at" ON {table} (sweep_at) WHERE sweep_at IS NOT NULL;
