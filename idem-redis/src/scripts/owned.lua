-- The record, if the claim of this attempt and token is its latest acquisition: ARGV[1] token, ARGV[2] attempt id.
local function owned(key)
    local blob = redis.call('GET', key)
    local r = blob and read(blob)
    if r and r.attempt == ARGV[2] and r.token == tonumber(ARGV[1]) then
        return r, blob
    end
    return nil
end
