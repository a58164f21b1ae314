-- KEYS[1] record; ARGV: how many bytes of a result or checkpoint are read, none of a completed record's.
-- Answers {now, record up to there, bytes of the whole result or checkpoint}, or nothing when there is no record.
local key, now = KEYS[1], clock()
local header = redis.call('GETRANGE', key, 0, HEADER_BYTES - 1)
local r, size = read(header), redis.call('STRLEN', key)
if not r then
    if redis.call('EXISTS', key) == 0 then
        return false
    end
    return {now, header, size}
end
local body_at = HEADER_BYTES + r.metadata_bytes
local listed = r.state == COMPLETED and 0 or tonumber(ARGV[1])
return {now, redis.call('GETRANGE', key, 0, body_at + listed - 1), math.max(size - body_at, 0)}
