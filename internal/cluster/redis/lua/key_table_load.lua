-- Returns the version of the key table, 0 for none, and the table unless the caller has the
-- version. KEYS: key table. ARGV: the caller's version.
local version = redis.call('HGET', KEYS[1], 'version')
if not version then
  return { '0' }
end
if version == ARGV[1] then
  return { version }
end
return { version, redis.call('HGET', KEYS[1], 'table') }
