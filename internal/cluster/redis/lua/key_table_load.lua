-- Returns the version of the table, 0 for none, and the table unless it is the
-- one that the caller has. KEYS: vault. ARGV: version that the caller has.
local version = redis.call('HGET', KEYS[1], 'version')
if not version then
  return { '0' }
end
if version == ARGV[1] then
  return { version }
end
return { version, redis.call('HGET', KEYS[1], 'table') }
