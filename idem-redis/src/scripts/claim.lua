-- What a claim comes to that meets a record.
local fingerprint, attempt = ARGV[1], ARGV[2]
local token, attempts, created_at, checkpoint = now, 1, now, ''
grace = tonumber(grace)
local r = read(blob)

-- An answer that the caller may act on for good: with replicas, they must have what it rests on.
local function settled(told)
    if ARGV[10] == '0' then
        return {0, now, told}
    end
    again(key)
    return {2, now, told}
end

if not r then
    return {0, now, blob}
end
token = math.max(r.token + 1, now)
if r.state ~= RELEASED and r.expires_at > now then
    if r.fingerprint ~= fingerprint then
        return settled(string.sub(blob, 1, HEADER_BYTES + r.metadata_bytes))
    end
    created_at, attempts = r.created_at, r.attempts + 1
    if r.state == IN_FLIGHT and r.attempt == attempt then
        token, attempts = r.token, r.attempts
    elseif is_stale(r, now) then
        if r.fails_when_stale == 1 or ARGV[5] == '1' then
            abandon(key, r, blob, ARGV[9], now, grace)
            return {2, now, redis.call('GET', key)}
        end
    elseif r.state == IN_FLIGHT then
        return {0, now, as_told(r, blob)}
    elseif r.state ~= FAILED or ARGV[6] == '0' then
        return settled(blob)
    end
    if r.state == IN_FLIGHT then
        checkpoint = body_of(r, blob)
    end
end
-- Above that a double, and so this script, cannot tell a token from the next.
if r.token >= 9007199254740991 then
    return {'spent', now}
end
write(key, {
    state = IN_FLIGHT, fails_when_stale = tonumber(ARGV[5]), attempts = attempts, token = token,
    created_at = created_at, expires_at = expires_at, lease_ends_at = lease_ends_at,
    sealed_at = 0, attempt = attempt, fingerprint = fingerprint,
}, ARGV[7], checkpoint, grace)
return {1, now, token, attempts, lease_ends_at}
