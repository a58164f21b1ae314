-- KEYS[1] record; ARGV: token, state that was seen, state to come, result, retention in microseconds, grace in ms,
-- channel or nothing. Answers 'done', or 'lost' when the record is no longer as it was seen.
--
-- The record is nobody's then. A released one keeps its token for the next claim.
local key, state, now = KEYS[1], tonumber(ARGV[3]), clock()
local blob = redis.call('GET', key)
local r = blob and read(blob)
if not r or r.token ~= tonumber(ARGV[1]) or r.state ~= tonumber(ARGV[2]) or r.expires_at <= now then
    return 'lost'
end
local metadata = state == RELEASED and '' or metadata_of(r, blob)
r.state, r.attempt, r.expires_at = state, NOBODY, now + tonumber(ARGV[5])
r.sealed_at = state == RELEASED and 0 or now
write(key, r, metadata, ARGV[4], tonumber(ARGV[6]))
if ARGV[7] ~= '' then
    redis.pcall('PUBLISH', ARGV[7], state)
end
return 'done'
