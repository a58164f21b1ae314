-- KEYS records; ARGV: grace in ms, lease and retention in microseconds, the records up to their instants, for each of
-- them what follows its instants, and when the callers stop waiting. Answers {now, then for each record 1 if it was free
-- and is claimed, else 0}, or {'late', now} when nobody waits any more: then nothing is done.
--
-- A record that is there is left as it is. An error is that record's alone, and of it nothing was written: 0 as well.
local pcall, keys, argv, time = redis.pcall, KEYS, ARGV, redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(argv[#argv]) then
    return {'late', now}
end
local lease_ends_at = now + argv[2]
local expires_at = lease_ends_at + argv[3]
local before = argv[4] .. struct.pack('>I8I8I8I8I8', now, now, expires_at, lease_ends_at, 0)
local ends_at = string.format('%.0f', math.ceil(expires_at / 1000) + argv[1])
local answers = {now}
for n = 1, #keys do
    local set = pcall('SET', keys[n], before .. argv[n + 4], 'NX', 'PXAT', ends_at)
    answers[n + 1] = set and set.ok and 1 or 0
end
return answers
