-- idem records, schema version 1. Instants are microseconds since 1970-01-01T00:00:00Z.
-- make_timestamp(expires_at) shows one as a time.
CREATE TABLE IF NOT EXISTS {table} (
    key           BLOB    NOT NULL,  -- scope, operation and id; bytes have no collation
    scope         VARCHAR NOT NULL,
    operation     VARCHAR NOT NULL,
    id            VARCHAR NOT NULL,
    token         BIGINT  NOT NULL,  -- fencing token of the latest acquisition
    state         BIGINT  NOT NULL,  -- 0 in flight, 1 completed, 2 failed, 3 released
    attempts      BIGINT  NOT NULL,  -- acquisitions since the key was fresh
    created_at    BIGINT  NOT NULL,  -- first seen
    lease_ends_at BIGINT  NOT NULL,
    expires_at    BIGINT  NOT NULL,  -- the key is fresh from here on; 0 when released
    sealed_at     BIGINT,            -- when completed or failed
    sweep_at      BIGINT,            -- lease_ends_at while in flight and not to be taken over
    fingerprint   BLOB    NOT NULL,  -- scheme and SHA-256
    attempt_id    BLOB    NOT NULL,  -- who holds it; zeros: nobody
    metadata      VARCHAR,           -- JSON
    result        BLOB,              -- the sealed response or failure; in flight, the last checkpoint
    PRIMARY KEY (key)
);
