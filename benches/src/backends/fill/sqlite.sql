INSERT INTO idem_records (scope, operation, id, token, state, attempts, created_at, lease_ends_at,
    expires_at, purge_at, sealed_at, fingerprint, attempt_id, result)
WITH RECURSIVE
    numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {rows}),
    moment (now) AS (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER))
SELECT 'bench', 'payments.create', lower(hex(randomblob(16))) AS id, now - 86400000000, 1, 1,
    now - 86400000000, now - 86400000000, now + {ends}, now + {ends}, now - 86400000000,
    unhex('01' || printf('%.64c', 'a')), randomblob(16), randomblob(100)
FROM numbers, moment ORDER BY id;
PRAGMA wal_checkpoint(TRUNCATE);
