-- KEYS[1] record; ARGV: fingerprint, attempt id, lease and retention in microseconds, whether a stale claim fails
-- (1 or 0), whether a failure is tried again (1 or 0), metadata, grace in ms, failure of an abandoned record, whether
-- the caller waits for replicas (1 or 0), when the caller stops waiting. Answers {1, now, token, attempts, end of lease}
-- to the winner, {0, now, record} to everybody else, {2, now, record} where replicas must have the record first,
-- {'late', now} to who does not wait any more, {'spent', now} when the token cannot grow: then nothing is done.
--
-- First the way that most claims go, before anything else is set up: a key that nobody has.
local key, now, grace = KEYS[1], redis.call('TIME'), ARGV[8]
now = now[1] * 1000000 + now[2]
if now > tonumber(ARGV[11]) then
    return {'late', now}
end
local lease_ends_at = now + ARGV[3]
local expires_at = lease_ends_at + ARGV[4]
local blob = redis.call('GET', key)
if not blob then
    local header = struct.pack(HEADER, VERSION, 0, ARGV[5], 1, now, now, expires_at, lease_ends_at, 0, ARGV[2], ARGV[1],
        #ARGV[7])
    redis.call('SET', key, header .. ARGV[7], 'PXAT', string.format('%.0f', math.ceil(expires_at / 1000) + grace))
    return {1, now, now, 1, lease_ends_at}
end
