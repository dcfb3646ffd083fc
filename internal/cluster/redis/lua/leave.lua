-- Ends the lease of a node that has nothing that others could miss. It also runs when memory is full.
-- KEYS: directory, node, nodes. ARGV: name, incarnation, channel of events.
if redis.call('HGET', KEYS[2], 'incarnation') == ARGV[2] then
  redis.call('DEL', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[1])
  -- Gateways list the nodes again.
  publish(ARGV[3], {})
end
return { 'ok' }
