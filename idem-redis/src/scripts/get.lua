-- KEYS[1] record; ARGV: whether the caller waits for replicas (1 or 0). Answers {now, record}, with a third item where
-- replicas must have the record first, or nothing when the key is free.
local now = clock()
local blob = redis.call('GET', KEYS[1])
local r = blob and read(blob)
if not blob or r and (r.state == RELEASED or r.expires_at <= now) then
    return false
end
if r and r.state ~= IN_FLIGHT and ARGV[1] == '1' then
    again(KEYS[1])
    return {now, blob, 1}
end
return {now, r and as_told(r, blob) or blob}
