-- Lists the nodes whose leases are valid: name, age in microseconds and info of each.
-- KEYS: directory, nodes. ARGV: prefix of nodes, the maximum number of nodes.
local all = {}
local names = redis.call('ZRANGEBYSCORE', KEYS[2], text(now), '+inf', 'LIMIT', 0, ARGV[2])
for _, name in ipairs(names) do
  local node = redis.call('HMGET', ARGV[1] .. name, 'seen', 'info')
  if node[1] then
    table.insert(all, name)
    table.insert(all, text(now - node[1]))
    table.insert(all, node[2])
  end
end
return all
