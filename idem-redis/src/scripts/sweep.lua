-- KEYS[1] record; ARGV: failure of an abandoned record, grace in ms, channel or nothing.
-- Answers 1 when it was failed. The header is looked at first: the scan meets records of any size.
local key, now = KEYS[1], clock()
local header = redis.call('GETRANGE', key, 0, HEADER_BYTES - 1)
local r = #header == HEADER_BYTES and read(header)
if not r or r.fails_when_stale ~= 1 or not is_stale(r, now) or r.expires_at <= now then
    return 0
end
abandon(key, r, redis.call('GET', key), ARGV[1], now, tonumber(ARGV[2]))
if ARGV[3] ~= '' then
    redis.pcall('PUBLISH', ARGV[3], FAILED)
end
return 1
