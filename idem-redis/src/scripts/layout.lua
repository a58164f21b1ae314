local function clock()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end

local function read(blob)
    if #blob < HEADER_BYTES or string.byte(blob, 1) ~= VERSION then
        return nil
    end
    local r = {}
    r.version, r.state, r.fails_when_stale, r.attempts, r.token, r.created_at, r.expires_at, r.lease_ends_at,
        r.sealed_at, r.attempt, r.fingerprint, r.metadata_bytes = struct.unpack(HEADER, blob)
    return r
end

-- One write, with the end of the key's life in it: no record is ever without one. The key outlives the record by
-- the grace, in which its token is still known to the next claim.
local function write(key, r, metadata, body, grace)
    local header = struct.pack(HEADER, VERSION, r.state, r.fails_when_stale, r.attempts, r.token, r.created_at,
        r.expires_at, r.lease_ends_at, r.sealed_at, r.attempt, r.fingerprint, #metadata)
    local ends_at = math.ceil(math.max(r.expires_at, r.token) / 1000) + grace
    redis.call('SET', key, header .. metadata .. body, 'PXAT', string.format('%.0f', ends_at))
end

local function metadata_of(r, blob)
    return string.sub(blob, HEADER_BYTES + 1, HEADER_BYTES + r.metadata_bytes)
end

-- What follows the metadata: the result of a sealed record, the checkpoint of one in flight.
local function body_of(r, blob)
    return string.sub(blob, HEADER_BYTES + r.metadata_bytes + 1)
end

-- The record as others are told it: what its holder has written down is for whoever holds it.
local function as_told(r, blob)
    if r.state == IN_FLIGHT then
        return string.sub(blob, 1, HEADER_BYTES + r.metadata_bytes)
    end
    return blob
end

local function is_stale(r, now)
    return r.state == IN_FLIGHT and r.lease_ends_at <= now
end

-- Fails a stale record that may not be taken over; nobody owns it then, and its checkpoint is gone.
local function abandon(key, r, blob, failure, now, grace)
    r.state, r.sealed_at, r.attempt = FAILED, now, NOBODY
    local metadata = metadata_of(r, blob)
    write(key, r, metadata, failure, grace)
end

-- Changes nothing, but is a write: WAIT waits only for writes of its own connection. So a caller that waits for replicas
-- waits until they have the record as it is now, whoever wrote it. PEXPIRE is allowed when memory is short; it would
-- delete a key that somebody has made persistent.
local function again(key)
    local left = redis.call('PTTL', key)
    if left > 0 then
        redis.call('PEXPIRE', key, left)
    else
        redis.call('SETRANGE', key, 0, string.char(VERSION))
    end
end
