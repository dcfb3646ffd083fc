-- Lists the nodes whose leases have ended in the last hour, and that have not left. The heartbeats of
-- the others remove earlier ones.
-- KEYS: directory, nodes. ARGV: the maximum number of nodes.
return redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. text(now), 'LIMIT', 0, ARGV[1])
