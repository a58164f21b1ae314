-- idem watermarks, schema version 1: the latest version of each source.
CREATE TABLE IF NOT EXISTS {table} (
    key           BLOB    NOT NULL,  -- scope, operation and id as one value
    scope         VARCHAR NOT NULL,
    operation     VARCHAR NOT NULL,
    id            VARCHAR NOT NULL,
    version       BIGINT  NOT NULL,
    expires_at    BIGINT  NOT NULL,  -- the source has no mark from here on
    PRIMARY KEY (key)
);
