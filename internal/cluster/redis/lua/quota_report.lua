-- Replaces the usage of a node for each holder, and returns the usage of the other nodes.
-- KEYS: holders. ARGV: node, incarnation, lease in ms, prefix of nodes, prefix of sessions;
-- then for each holder: 1 when the node asks for something back; its amounts, empty for
-- none; a session that it has released: p:id, end, amounts; or a snapshot that it has stored: s:id,
-- end, node, amounts.
if redis.call('HGET', ARGV[4] .. ARGV[1], 'incarnation') ~= ARGV[2] then
  return { 'expired' }
end
local answer = { 'ok' }
for i, key in ipairs(KEYS) do
  local wants, amounts, parked = ARGV[3 + 3 * i], ARGV[4 + 3 * i], ARGV[5 + 3 * i]
  local till = now + 2000 * ARGV[3]
  if amounts ~= '' then
    redis.call('HSET', key, 'n:' .. ARGV[1], ARGV[2] .. ' ' .. amounts)
  else
    redis.call('HDEL', key, 'n:' .. ARGV[1])
  end
  local session, ends, rest = string.match(parked, '^(%S+) (%S+) (.*)$')
  if session then
    redis.call('HSET', key, session, ends .. ' ' .. rest)
    till = math.max(till, tonumber(ends))
  end
  if wants == '1' then
    redis.call('HSET', key, 'want', ARGV[1] .. ' ' .. text(now + 5000000))
  end
  local sum, wanted = {}, '0'
  local all = redis.call('HGETALL', key)
  for f = 1, #all, 2 do
    local kind, name = string.sub(all[f], 1, 2), string.sub(all[f], 3)
    local first, list = string.match(all[f + 1], '^(%S+) (.*)$')
    local counts = false
    if all[f] == 'want' then
      if first ~= ARGV[1] and tonumber(list) > now then
        wanted = '1'
      end
    elseif kind == 'n:' then
      -- The usage of a node whose lease has expired does not count: the node reports it
      -- again.
      counts = redis.call('HGET', ARGV[4] .. name, 'incarnation') == first
      if not counts then
        redis.call('HDEL', key, all[f])
      end
      counts = counts and name ~= ARGV[1]
    elseif kind == 's:' then
      -- A stored snapshot counts while its node does not report it.
      local node
      node, list = string.match(list, '^(%S+) (.*)$')
      counts = redis.call('EXISTS', ARGV[4] .. node) == 0
      if tonumber(first) <= now then
        redis.call('HDEL', key, all[f])
        counts = false
      end
    else
      -- A released session counts while no node owns it.
      counts = tonumber(first) > now and redis.call('HGET', ARGV[5] .. name, 'node') == ''
      if not counts then
        redis.call('HDEL', key, all[f])
      end
    end
    if counts then
      local n = 0
      for a in string.gmatch(list, '%S+') do
        n = n + 1
        sum[n] = (sum[n] or 0) + tonumber(a)
      end
    end
  end
  for n = 1, #sum do
    sum[n] = string.format('%.3f', sum[n])
  end
  local left = math.ceil((till - now) / 1000)
  if redis.call('PTTL', key) < left then
    redis.call('PEXPIRE', key, text(left))
  end
  answer[2 * i] = wanted
  answer[2 * i + 1] = table.concat(sum, ' ')
end
return answer
