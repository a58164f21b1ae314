-- KEYS[1] mark; ARGV: version, retention in ms, whether the caller waits for replicas (1 or 0).
-- Answers {'advanced'}, {'unchanged'}, {'stale', the mark's version} or {'garbage'}.
--
-- A version is 19 decimal digits: as a number it would be a double, in which 2^53 and 2^53 + 1 are one, and strings
-- are compared in the order of the server's locale. So they are compared in two halves, both exact.
local function is_above(one, other)
    local high, low = tonumber(string.sub(one, 1, 10)), tonumber(string.sub(one, 11))
    local other_high, other_low = tonumber(string.sub(other, 1, 10)), tonumber(string.sub(other, 11))
    return high > other_high or high == other_high and low > other_low
end

local key, version = KEYS[1], ARGV[1]
local found = redis.call('GET', key)
if found and (#found ~= 19 or string.find(found, '[^0-9]')) then
    return {'garbage'}
end
if not found or is_above(version, found) then
    redis.call('SET', key, version, 'PX', ARGV[2])
    return {'advanced'}
end
if ARGV[3] == '1' then
    -- Nothing changes, but a caller that waits for replicas waits for a write of its own.
    redis.call('SET', key, found, 'KEEPTTL')
end
if found ~= version then
    return {'stale', found}
end
return {'unchanged'}
