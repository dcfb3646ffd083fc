-- Puts a table in the place of another. KEYS: vault. ARGV: the other's version,
-- its own, the table, for how long after its beginning the vault takes no
-- changes in microseconds, channel of events.
local known = redis.call('HMGET', KEYS[1], 'version', 'begun')
if known[1] ~= ARGV[1] then
  return { 'other' }
end
-- A clock that was set back is no reason to wait.
local age = now - tonumber(known[2])
if age >= 0 and age < tonumber(ARGV[4]) then
  return { 'young' }
end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'table', ARGV[3])
redis.call('PUBLISH', ARGV[5], ARGV[2])
return { 'ok' }
