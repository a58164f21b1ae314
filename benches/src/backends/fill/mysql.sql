SET SESSION sql_mode = '';
SET @now = CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED);
INSERT INTO `{database}`.idem_records (token, created_at, lease_ends_at, expires_at, purge_at,
    sealed_at, attempts, state, scope, operation, id, fingerprint, attempt_id, result)
SELECT @now - 86400000000, @now - 86400000000, @now - 86400000000, @now + {ends}, @now + {ends},
    @now - 86400000000, 1, 1, 'bench', 'payments.create', digest,
    UNHEX(CONCAT('01', REPEAT('ab', 32))), UNHEX(digest), UNHEX(REPEAT('cd', 100))
FROM (SELECT LEFT(SHA2({number}, 256), 32) AS digest FROM {digits} WHERE {number} < {rows}) AS numbers
ORDER BY digest
