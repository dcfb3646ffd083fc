-- Returns the members of a set that have not ended. KEYS: set. ARGV: the maximum number.
return redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now), '+inf', 'LIMIT', 0, ARGV[1])
