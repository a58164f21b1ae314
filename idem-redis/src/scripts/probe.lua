-- ARGV: a word. Answers 1.
--
-- Redis 6.2 with `lua-replicate-commands no` refuses a write after TIME, and by the same setting this change of nothing.
redis.call('TIME')
if redis.set_repl then
    redis.set_repl(redis.REPL_ALL)
end
return 1
