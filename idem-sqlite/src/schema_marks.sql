-- idem watermarks, schema version 1: the latest version of each source.
CREATE TABLE IF NOT EXISTS {table} (
    scope         TEXT    NOT NULL COLLATE BINARY,
    operation     TEXT    NOT NULL COLLATE BINARY,
    id            TEXT    NOT NULL COLLATE BINARY,
    version       INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,  -- the source has no mark from here on
    PRIMARY KEY (scope, operation, id)
);
CREATE INDEX IF NOT EXISTS "{prefix}_marks_at" ON {table} (expires_at);
