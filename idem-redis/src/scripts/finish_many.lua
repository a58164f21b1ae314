-- KEYS records; ARGV: grace in ms, state, retention in microseconds (0 of a release), how many bytes of a key come
-- before its path, the channels' names up to the path or nothing; for each record its token and attempt id, as it holds
-- them, and its result. Answers {now, then for each record 1 if its claim was held and is ended now, else 0}.
--
-- A record whose claim is not held is left as it is. An error is that record's alone, and of it nothing was written: 0
-- as well.
--
-- Redis takes long to make a string, above all of a number, so few are made.
local pcall, type, byte, sub, unpack = redis.pcall, type, string.byte, string.sub, struct.unpack
local keys, argv, time = KEYS, ARGV, redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local grace, state, path_at, channels = argv[1], argv[2], argv[4] + 1, argv[5]
local is_released, expires_at = tonumber(state) == RELEASED, now + argv[3]
local head, expires = string.char(VERSION, state), struct.pack('>I8', expires_at)
local sealed = struct.pack('>I8', is_released and 0 or now)
local usual_end = string.format('%.0f', math.ceil(expires_at / 1000) + grace)
local answers = {now}
for n = 1, #keys do
    local key, owner, done = keys[n], argv[2 * n + 4], 0
    local blob = pcall('GET', key)
    if type(blob) == 'string' and #blob >= HEADER_BYTES and byte(blob, 1) == VERSION and byte(blob, 2) == IN_FLIGHT
        and sub(blob, 8, 15) .. sub(blob, 48, 63) == owner and unpack('>I8', blob, 24) > now then
        local last, result = HEADER_BYTES - 4, '\0\0\0\0'
        if not is_released then
            last, result = HEADER_BYTES + unpack('>I4', blob, HEADER_BYTES - 3), argv[2 * n + 5]
        end
        local ended = head .. sub(blob, 3, 23) .. expires .. sub(blob, 32, 39) .. sealed .. sub(blob, 48, last) .. result
        -- The token is ahead of the clock if the clock was set back.
        local token, ends_at = unpack('>I8', owner), usual_end
        if token > expires_at then
            ends_at = string.format('%.0f', math.ceil(token / 1000) + grace)
        end
        if pcall('SET', key, ended, 'PXAT', ends_at).ok then
            done = 1
            if channels ~= '' then
                pcall('PUBLISH', channels .. sub(key, path_at), state)
            end
        end
    end
    answers[n + 1] = done
end
return answers
