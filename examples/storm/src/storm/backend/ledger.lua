-- The effect of a request, once: what a payment provider does with the idempotency key of a call.
--
-- KEYS: the effects by their keys, the ledger. ARGV: the caller's key, its fencing token, the effect.
-- Answers the effect that is in the ledger, whoever caused it; nothing to a caller whose token is smaller than one
-- that was seen. Tokens are exact in Lua's doubles until the year 2255.
local known = redis.call('HGET', KEYS[1], ARGV[1])
local place
if known then
    local token
    token, place = string.match(known, '^(%d+) (.+)$')
    if tonumber(ARGV[2]) < tonumber(token) then
        return false
    end
else
    place = redis.call('XADD', KEYS[2], '*', 'entry', ARGV[3])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. place)
return redis.call('XRANGE', KEYS[2], place, place)[1][2][2]
