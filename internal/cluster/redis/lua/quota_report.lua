-- Replaces the usage of a node for some holders, and returns the usage of the other nodes for each.
-- Then it returns the holders for which other nodes ask the node to give something back.
-- KEYS: directory, node, what is wanted of the node; then for each holder: its usage on nodes, what
-- no node reports. ARGV: node, incarnation, life of usage in ms, prefix of nodes, prefix of sessions,
-- prefix of what is wanted, number of the report, 1 for a complete report, 1 to take what is wanted,
-- how long something is wanted in µs, how many are returned at most; then for each holder: its name, 1
-- when the node wants something back, its amounts, empty for none; a field of what no node
-- reports and its value, both empty for none.
local node = redis.call('HMGET', KEYS[2], 'incarnation', 'report')
if node[1] ~= ARGV[2] then
  return { 'expired' }
end
local of, last = string.match(node[2] or '', '^(%S+) (%S+)$')
if of == ARGV[2] and tonumber(last) >= tonumber(ARGV[7]) then
  return { 'old' }
end
redis.call('HSET', KEYS[2], 'report', ARGV[2] .. ' ' .. ARGV[7])
if ARGV[8] == '1' then
  redis.call('HSET', KEYS[2], 'complete', ARGV[2])
end

local function extend(key, till)
  local left = math.ceil((till - now) / 1000)
  if redis.call('PTTL', key) < left then
    redis.call('PEXPIRE', key, text(left))
  end
end

-- counts reports whether usage of an incarnation of a node counts. That of an earlier one counts
-- until the node has reported all usage of the present one.
local known = {}
local function counts(name, incarnation)
  known[name] = known[name] or redis.call('HMGET', ARGV[4] .. name, 'incarnation', 'complete')
  local is, complete = known[name][1], known[name][2]
  return is and (is == incarnation or complete and complete ~= is)
end

-- lives reports whether an entry that no node reports still has to be kept.
local function lives(field, ends)
  return ends > now and (string.sub(field, 1, 2) ~= 'p:' or
    redis.call('HGET', ARGV[5] .. string.sub(field, 3), 'node') == '')
end

-- sweep removes some entries that have ended, so that all were looked at after some reports. The
-- sums correct themselves in this way when the record of a session was lost.
local function sweep(key, sums)
  local state = redis.call('HMGET', key, 'cursor', 'due')
  if tonumber(state[2] or '0') > now then
    return
  end
  local part = redis.call('HSCAN', key, state[1] or '0', 'COUNT', 50)
  for f = 1, #part[2], 2 do
    local field, value = part[2][f], part[2][f + 1]
    if string.find(field, '^[ps]:') and not lives(field, (entry_of(value))) then
      drop_left(key, sums, field)
    end
  end
  redis.call('HSET', key, 'cursor', part[1],
    'due', text(part[1] == '0' and now + 60000000 or 0))
  save_sums(key, sums)
end

-- put stores an entry that no node reports, or removes one that has ended.
local function put(key, sums, field, value)
  if not lives(field, (entry_of(value))) then
    drop_left(key, sums, field)
    save_sums(key, sums)
    return
  end
  put_left(key, sums, field, value)
  save_sums(key, sums)
  extend(key, (entry_of(value)))
  if string.sub(field, 1, 2) == 'p:' then
    local record = ARGV[5] .. string.sub(field, 3)
    local held = redis.call('HGET', record, 'held') or ''
    if not string.find(held, key, 1, true) then
      redis.call('HSET', record, 'held', held == '' and key or held .. ' ' .. key)
    end
  end
end

-- moved stores an entry that an earlier version has stored beside the usage on nodes.
local function moved(key, field, value)
  local ends, list = string.match(value, '^(%S+) (.*)$')
  if string.sub(field, 1, 2) == 'p:' then
    list = '= ' .. list
  end
  put(key, sums_of(key), field, ends .. ' ' .. list)
end

-- left returns the amounts that no node reports.
local function left(key, field, value)
  local sum = {}
  if field == '' and redis.call('EXISTS', key) == 0 then
    return sum
  end
  local sums = sums_of(key)
  if field ~= '' then
    put(key, sums, field, value)
  end
  sweep(key, sums)
  for group, list in pairs(sums) do
    -- A stored snapshot counts while its node does not report it.
    if group == '=' or redis.call('EXISTS', ARGV[4] .. group) == 0 then
      add(sum, list, 1)
    end
  end
  return sum
end

-- want asks the nodes that use something to give it back.
local function want(names, holder)
  for _, name in ipairs(names) do
    local key = ARGV[6] .. name
    redis.call('ZADD', key, text(now + ARGV[10]), holder)
    redis.call('PEXPIRE', key, text(ARGV[10] / 1000))
  end
end

local answer = { 'ok' }
local first = 12
for i = 4, #KEYS, 2 do
  local held = KEYS[i]
  if ARGV[first + 2] ~= '' then
    redis.call('HSET', held, 'n:' .. ARGV[1], ARGV[2] .. ' ' .. ARGV[first + 2])
    extend(held, now + 1000 * ARGV[3])
  else
    redis.call('HDEL', held, 'n:' .. ARGV[1])
  end
  local names, all = {}, redis.call('HGETALL', held)
  for f = 1, #all, 2 do
    if string.find(all[f], '^[ps]:') then
      moved(KEYS[i + 1], all[f], all[f + 1])
    end
  end
  local sum = left(KEYS[i + 1], ARGV[first + 3], ARGV[first + 4])
  for f = 1, #all, 2 do
    local name = string.match(all[f], '^n:(.*)$')
    local incarnation, list = string.match(all[f + 1], '^(%S+) (.*)$')
    if name == ARGV[1] then
      -- It is the node's own.
    elseif name and counts(name, incarnation) then
      add(sum, amounts(list), 1)
      names[#names + 1] = name
    else
      redis.call('HDEL', held, all[f])
    end
  end
  if ARGV[first + 1] == '1' then
    want(names, ARGV[first])
  end
  answer[#answer + 1] = joined(sum)
  first = first + 5
end
if ARGV[9] == '1' then
  for _, holder in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], text(now), '+inf', 'LIMIT', 0,
    ARGV[11])) do
    redis.call('ZREM', KEYS[3], holder)
    answer[#answer + 1] = holder
  end
end
return answer
