-- KEYS[1] record; ARGV: token, attempt id.
-- Answers the checkpoint, an empty one if there is none, or nothing when the claim is lost.
local r, blob = owned(KEYS[1])
if not r or r.state ~= IN_FLIGHT or r.expires_at <= clock() then
    return false
end
return body_of(r, blob)
