-- Returns the owner of a session. KEYS: directory, session. ARGV: prefix of nodes.
local known = redis.call('HMGET', KEYS[2], 'node', 'incarnation', 'token')
if not known[3] then
  return { 'none' }
end
local node = { false, false }
if known[1] ~= '' then
  node = redis.call('HMGET', ARGV[1] .. known[1], 'incarnation', 'info')
end
if node[1] and node[1] == known[2] then
  return { 'ok', known[1], known[3], 'live', node[2] }
end
return { 'ok', known[1], known[3], '', '' }
