-- KEYS[1] record; ARGV: token, attempt id, state, result, retention in microseconds, grace in ms, channel or nothing,
-- whether the caller waits for replicas (1 or 0). Answers 'done', 'lost' or 'sealed' (with another result).
local key, state, now = KEYS[1], tonumber(ARGV[3]), clock()
local r, blob = owned(key)
if not r or r.state == RELEASED or r.expires_at <= now then
    return 'lost'
end
if r.state ~= IN_FLIGHT then
    if ARGV[8] == '1' then
        again(key)
    end
    if r.state ~= state or body_of(r, blob) ~= ARGV[4] then
        return 'sealed'
    end
    return 'done'
end
local metadata = metadata_of(r, blob)
r.state, r.sealed_at, r.expires_at = state, now, now + tonumber(ARGV[5])
write(key, r, metadata, ARGV[4], tonumber(ARGV[6]))
if ARGV[7] ~= '' then
    redis.pcall('PUBLISH', ARGV[7], state)
end
return 'done'
