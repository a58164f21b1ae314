-- KEYS[1] record; ARGV: token, attempt id, grace in ms, channel or nothing, whether the caller waits for replicas.
-- Answers 'done' or 'lost'.
local key, now = KEYS[1], clock()
local r = owned(key)
if r and r.state == RELEASED then
    if ARGV[5] == '1' then
        again(key)
    end
    return 'done'
end
if not r or r.state ~= IN_FLIGHT or r.expires_at <= now then
    return 'lost'
end
r.state, r.expires_at = RELEASED, now
write(key, r, '', '', tonumber(ARGV[3]))
if ARGV[4] ~= '' then
    redis.pcall('PUBLISH', ARGV[4], RELEASED)
end
return 'done'
