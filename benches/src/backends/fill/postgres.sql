DO $fill$
DECLARE
    wanted bigint := {rows};
    ends bigint := {ends};
    now bigint := CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS bigint);
    the_table regclass := 'idem_records';
    the_constraint record;
    the_index record;
    makes text[] := ARRAY[]::text[];
    make text;
BEGIN
    FOR the_index IN
        SELECT indexrelid::regclass AS name, pg_get_indexdef(indexrelid) AS definition
        FROM pg_index WHERE indrelid = the_table AND NOT indisprimary
    LOOP
        makes := makes || the_index.definition;
        EXECUTE format('DROP INDEX %s', the_index.name);
    END LOOP;
    SELECT conname, pg_get_constraintdef(oid) AS definition INTO the_constraint
        FROM pg_constraint WHERE conrelid = the_table AND contype = 'p';
    makes := makes || format('ALTER TABLE %s ADD CONSTRAINT %I %s',
        the_table, the_constraint.conname, the_constraint.definition);
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', the_table, the_constraint.conname);
    INSERT INTO idem_records (token, created_at, lease_ends_at, expires_at, purge_at, sealed_at,
        attempts, state, scope, operation, id, fingerprint, attempt_id, result)
    SELECT now - 86400000000, now - 86400000000, now - 86400000000, now + ends, now + ends,
        now - 86400000000, 1, 1, 'bench', 'payments.create', md5(n::text),
        decode('01' || repeat('ab', 32), 'hex'), decode(md5(n::text), 'hex'),
        decode(repeat('cd', 100), 'hex')
    FROM generate_series(1, wanted) AS n;
    FOREACH make IN ARRAY makes LOOP EXECUTE make; END LOOP;
END $fill$
