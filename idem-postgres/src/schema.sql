-- idem records, schema version 1. Instants are microseconds since 1970-01-01T00:00:00Z.
-- to_timestamp(expires_at / 1e6) shows one as a time.
CREATE TABLE IF NOT EXISTS {table} (
    token         bigint   NOT NULL,  -- fencing token of the latest acquisition
    created_at    bigint   NOT NULL,  -- first seen
    lease_ends_at bigint   NOT NULL,
    expires_at    bigint   NOT NULL,  -- the key is fresh from here on; 0 when released
    purge_at      bigint   NOT NULL,  -- expires_at, or up to an eighth of the retention later
    sealed_at     bigint,             -- when completed or failed
    sweep_at      bigint,             -- lease_ends_at while in flight and not to be taken over
    attempts      integer  NOT NULL,  -- acquisitions since the key was fresh
    state         smallint NOT NULL,  -- 0 in flight, 1 completed, 2 failed, 3 released
    scope         text     COLLATE "C" NOT NULL,
    operation     text     COLLATE "C" NOT NULL,
    id            text     COLLATE "C" NOT NULL,
    fingerprint   bytea    NOT NULL,  -- scheme and SHA-256
    attempt_id    bytea    NOT NULL,  -- who holds it; zeros: nobody
    metadata      text,               -- JSON
    result        bytea,              -- the sealed response or failure; while in flight, the last checkpoint
    PRIMARY KEY (id, operation, scope)  -- ids differ most, so most comparisons end with them
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);
CREATE INDEX IF NOT EXISTS "{prefix}_purge_at" ON {table} (purge_at);
CREATE INDEX IF NOT EXISTS "{prefix}_sweep_at" ON {table} (sweep_at) WHERE sweep_at IS NOT NULL;
COMMENT ON TABLE {table} IS 'idem records, schema version 1';
