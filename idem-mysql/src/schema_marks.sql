-- idem watermarks, schema version 1: the latest version of each source.
CREATE TABLE IF NOT EXISTS {table} (
    version       BIGINT         NOT NULL,
    expires_at    BIGINT         NOT NULL COMMENT 'the source has no mark from here on',
    scope         VARBINARY(255) NOT NULL COMMENT 'UTF-8',
    operation     VARBINARY(128) NOT NULL COMMENT 'UTF-8',
    id            VARBINARY(255) NOT NULL COMMENT 'UTF-8',
    PRIMARY KEY (scope, operation, id),
    KEY `{prefix}_marks_at` (expires_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4
  COMMENT = 'idem watermarks, schema version 1';
