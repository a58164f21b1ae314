-- KEYS: epoch, entry; ARGV: the ticket's epoch, when the entry ends (ms since 1970), the entry.
-- Answers 1 when it was stored: the epoch is still the ticket's.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[2], ARGV[3], 'PXAT', ARGV[2])
return 1
