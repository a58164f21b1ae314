-- KEYS[1] record; ARGV: token, attempt id, lease in microseconds, grace in ms.
-- Answers {now, end of lease, attempts}, or nothing when the claim is lost.
local key, now = KEYS[1], clock()
local r, blob = owned(key)
if not r or r.state ~= IN_FLIGHT or r.expires_at <= now then
    return false
end
local longer = math.max(now + tonumber(ARGV[3]) - r.lease_ends_at, 0)
r.lease_ends_at, r.expires_at = r.lease_ends_at + longer, r.expires_at + longer
write(key, r, metadata_of(r, blob), body_of(r, blob), tonumber(ARGV[4]))
return {now, r.lease_ends_at, r.attempts}
