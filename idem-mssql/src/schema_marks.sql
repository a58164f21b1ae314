-- idem watermarks, schema version 1: the latest version of each source.
IF OBJECT_ID(N'{table}', N'U') IS NULL
BEGIN
    CREATE TABLE {table} (
        scope         varbinary(255) NOT NULL,
        operation     varbinary(128) NOT NULL,
        id            varbinary(255) NOT NULL,
        version       bigint         NOT NULL,
        expires_at    bigint         NOT NULL,  -- the source has no mark from here on
        CONSTRAINT [{prefix}_mark_key] PRIMARY KEY CLUSTERED (scope, operation, id)
    );
    CREATE INDEX [{prefix}_marks_at] ON {table} (expires_at);
END;
