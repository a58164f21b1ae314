-- KEYS: epoch, entry; ARGV: a new epoch, for how many ms it is kept. Answers 1.
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[2])
return 1
