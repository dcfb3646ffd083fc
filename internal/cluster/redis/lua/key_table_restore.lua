-- Stores the key table unless the same or a later version is stored. KEYS: key table. ARGV:
-- version, table, channel of events.
local known = redis.call('HGET', KEYS[1], 'version')
if known and tonumber(known) >= tonumber(ARGV[1]) then
  return { 'newer' }
end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'table', ARGV[2])
if not known then
  redis.call('HSET', KEYS[1], 'begun', text(now))
end
redis.call('PUBLISH', ARGV[3], ARGV[1])
return { 'ok' }
