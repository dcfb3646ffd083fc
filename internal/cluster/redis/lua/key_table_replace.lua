-- Replaces the key table. KEYS: key table. ARGV: the expected version, the new version, the
-- table, the time in microseconds in which a new table accepts no changes, channel of events.
local known = redis.call('HMGET', KEYS[1], 'version', 'begun')
if known[1] ~= ARGV[1] then
  return { 'other' }
end
-- After the clock was set back, the age is unknown and the change is accepted.
local age = now - tonumber(known[2])
if age >= 0 and age < tonumber(ARGV[4]) then
  return { 'young' }
end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'table', ARGV[3])
redis.call('PUBLISH', ARGV[5], ARGV[2])
return { 'ok' }
