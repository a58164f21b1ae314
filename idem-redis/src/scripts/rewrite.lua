-- KEYS[1] record; ARGV: token, state, result, metadata, grace in ms. Answers 'done', or 'lost' when the record is no
-- longer sealed so. The header is written as it was, so the key ends when it did.
local key, now = KEYS[1], clock()
local blob = redis.call('GET', key)
local r = blob and read(blob)
if not r or r.token ~= tonumber(ARGV[1]) or r.state ~= tonumber(ARGV[2]) or r.expires_at <= now then
    return 'lost'
end
write(key, r, ARGV[4], ARGV[3], tonumber(ARGV[5]))
return 'done'
