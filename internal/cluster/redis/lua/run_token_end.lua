-- Removes a run token. ARGV: id, origin.
local there = redis.call('EXISTS', KEYS[1]) == 1
forget(ARGV[1], ARGV[2])
return { there and 'ok' or 'none' }
