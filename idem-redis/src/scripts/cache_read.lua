-- KEYS: epoch, entry; ARGV: an epoch for the case that there is none, for how many ms it is kept.
-- Answers {now in microseconds, epoch, entry or nothing}.
local time = redis.call('TIME')
local epoch = redis.call('GET', KEYS[1])
if not epoch then
    epoch = ARGV[1]
    redis.call('SET', KEYS[1], epoch, 'PX', ARGV[2])
end
return {time[1] * 1000000 + time[2], epoch, redis.call('GET', KEYS[2])}
