-- KEYS[1] nonce; ARGV: this try's mark, what takes its place or nothing, channel or nothing.
-- Answers 1 when it was this try's, or had been given this by it before: then it is written once more, for a caller
-- that waits until replicas have a write of its own.
local found = redis.call('GET', KEYS[1])
if not found or found ~= ARGV[1] and found ~= ARGV[2] then
    return 0
end
if ARGV[2] == '' then
    redis.call('DEL', KEYS[1])
else
    redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
end
if ARGV[3] ~= '' then
    redis.pcall('PUBLISH', ARGV[3], '')
end
return 1
