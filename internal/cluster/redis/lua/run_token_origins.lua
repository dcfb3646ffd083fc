-- Returns what in a set is not over. KEYS: set. ARGV: how much at most.
return redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now), '+inf', 'LIMIT', 0, ARGV[1])
