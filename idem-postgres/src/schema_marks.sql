-- idem watermarks, schema version 1: the latest version of each source.
CREATE TABLE IF NOT EXISTS {table} (
    version       bigint   NOT NULL,
    expires_at    bigint   NOT NULL,  -- the source has no mark from here on
    scope         text     COLLATE "C" NOT NULL,
    operation     text     COLLATE "C" NOT NULL,
    id            text     COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, operation, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);
CREATE INDEX IF NOT EXISTS "{prefix}_marks_at" ON {table} (expires_at);
COMMENT ON TABLE {table} IS 'idem watermarks, schema version 1';
