-- idem records, schema version 1. Instants are microseconds since 1970-01-01T00:00:00Z.
-- FROM_UNIXTIME(expires_at / 1000000) shows one as a time, CONVERT(id USING utf8mb4) a key as text.
CREATE TABLE IF NOT EXISTS {table} (
    token         BIGINT         NOT NULL COMMENT 'fencing token of the latest acquisition',
    created_at    BIGINT         NOT NULL COMMENT 'first seen',
    lease_ends_at BIGINT         NOT NULL,
    expires_at    BIGINT         NOT NULL COMMENT 'the key is fresh from here on; 0 when released',
    purge_at      BIGINT         NOT NULL COMMENT 'expires_at, or up to an eighth of the retention later; sweep_at less 2^62 where there is one',
    sealed_at     BIGINT         NULL     COMMENT 'when completed or failed',
    sweep_at      BIGINT         NULL     COMMENT 'lease_ends_at while in flight and not to be taken over',
    attempts      INT            NOT NULL COMMENT 'acquisitions since the key was fresh',
    state         TINYINT        NOT NULL COMMENT '0 in flight, 1 completed, 2 failed, 3 released',
    scope         VARBINARY(255) NOT NULL COMMENT 'UTF-8',
    operation     VARBINARY(128) NOT NULL COMMENT 'UTF-8',
    id            VARBINARY(255) NOT NULL COMMENT 'UTF-8',
    fingerprint   VARBINARY(33)  NOT NULL COMMENT 'scheme and SHA-256',
    attempt_id    BINARY(16)     NOT NULL COMMENT 'who holds it; zeros: nobody',
    metadata      MEDIUMBLOB     NULL     COMMENT 'JSON, UTF-8',
    result        LONGBLOB       NULL     COMMENT 'the sealed response or failure; while in flight, the last checkpoint',
    PRIMARY KEY (scope, operation, id),
    KEY `{prefix}_purge_at` (purge_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4
  COMMENT = 'idem records, schema version 1';
