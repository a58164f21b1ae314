-- KEYS[1] record; ARGV: token, attempt id, checkpoint, grace in ms.
-- Answers 'done' or 'lost'. The header is written as it was, so the key ends when it did.
local key, now = KEYS[1], clock()
local r, blob = owned(key)
if not r or r.state ~= IN_FLIGHT or r.expires_at <= now then
    return 'lost'
end
write(key, r, metadata_of(r, blob), ARGV[3], tonumber(ARGV[4]))
return 'done'
