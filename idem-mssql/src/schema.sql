-- idem records, schema version 1. Instants are microseconds since 1970-01-01T00:00:00Z.
-- DATEADD(second, expires_at / 1000000, '1970-01-01') shows one as a time, CAST(id AS varchar(255)) a key of ASCII.
IF OBJECT_ID(N'{table}', N'U') IS NULL
BEGIN
    CREATE TABLE {table} (
        scope         varbinary(255) NOT NULL,  -- UTF-8, compared byte by byte: no collation
        operation     varbinary(128) NOT NULL,
        id            varbinary(255) NOT NULL,  -- 638 bytes together; a clustered key may have 900
        token         bigint         NOT NULL,  -- fencing token of the latest acquisition
        created_at    bigint         NOT NULL,  -- first seen
        lease_ends_at bigint         NOT NULL,
        expires_at    bigint         NOT NULL,  -- the key is fresh from here on; 0 when released
        purge_at      bigint         NOT NULL,  -- not before expires_at: see the README
        sealed_at     bigint         NULL,      -- when completed or failed
        sweep_at      bigint         NULL,      -- lease_ends_at while in flight and not to be taken over
        attempts      int            NOT NULL,  -- acquisitions since the key was fresh
        state         smallint       NOT NULL,  -- 0 in flight, 1 completed, 2 failed, 3 released
        fingerprint   varbinary(33)  NOT NULL,  -- scheme and SHA-256
        attempt_id    varbinary(16)  NOT NULL,  -- who holds it; zeros: nobody
        metadata      nvarchar(max)  NULL,      -- JSON
        result        varbinary(max) NULL,      -- the sealed response or failure; while in flight, the last checkpoint
        CONSTRAINT [{prefix}_key] PRIMARY KEY CLUSTERED (scope, operation, id)
    );
    CREATE INDEX [{prefix}_purge_at] ON {table} (purge_at);
    CREATE INDEX [{prefix}_sweep_at] ON {table} (sweep_at) WHERE sweep_at IS NOT NULL;
    CREATE TABLE {version_table} (version int NOT NULL);
    INSERT INTO {version_table} (version) VALUES (1);
END;
