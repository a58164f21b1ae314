-- The stored form of a record: see `record.rs`, which reads it. Numbers are big-endian; instants are microseconds
-- since 1970 by the server's clock, exact in Lua's doubles until the year 2255.
local HEADER = '>BBBI4I8I8I8I8I8c16c33I4'
local VERSION, HEADER_BYTES = 1, 100
local IN_FLIGHT, COMPLETED, FAILED, RELEASED = 0, 1, 2, 3
local NOBODY = string.rep('\0', 16)
