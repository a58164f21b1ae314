-- KEYS[1] record. Answers {now, record}, or nothing when the key is free.
local now = clock()
local blob = redis.call('GET', KEYS[1])
local r = blob and read(blob)
if not blob or r and (r.state == RELEASED or r.expires_at <= now) then
    return false
end
return {now, r and as_told(r, blob) or blob}
