-- Functions for what no node reports: sessions that their nodes have released, and snapshots in the
-- blob store. A hash for each holder has them and their sums. A field p:id has the session id and s:id
-- the snapshot id, each with its end, its group and its amounts. The group of released sessions is =,
-- and that of snapshots their node. The field sums has the sum of each group.

local function amounts(list)
  local all = {}
  for a in string.gmatch(list, '%S+') do
    all[#all + 1] = tonumber(a)
  end
  return all
end

local function add(sum, all, sign)
  for n, a in ipairs(all) do
    sum[n] = (sum[n] or 0) + sign * a
  end
end

local function joined(sum)
  local all = {}
  for n, a in ipairs(sum) do
    all[n] = string.format('%.3f', a)
  end
  return table.concat(all, ' ')
end

-- sums_of returns the sums by group.
local function sums_of(key)
  local sums = {}
  for group, list in string.gmatch(redis.call('HGET', key, 'sums') or '', '([^%s|]+) ([^|]*)') do
    sums[group] = amounts(list)
  end
  return sums
end

local function save_sums(key, sums)
  local all = {}
  for group, sum in pairs(sums) do
    all[#all + 1] = group .. ' ' .. joined(sum)
  end
  table.sort(all)
  redis.call('HSET', key, 'sums', table.concat(all, '|'))
end

-- entry_of divides the value of a field into its end, its group and its amounts.
local function entry_of(value)
  local ends, group, list = string.match(value, '^(%S+) (%S+) ?(.*)$')
  return tonumber(ends), group, amounts(list)
end

-- drop_left removes a field. The caller saves the sums.
local function drop_left(key, sums, field)
  local value = redis.call('HGET', key, field)
  if value then
    local _, group, list = entry_of(value)
    sums[group] = sums[group] or {}
    add(sums[group], list, -1)
    if not string.find(joined(sums[group]), '[1-9]') then
      sums[group] = nil
    end
    redis.call('HDEL', key, field)
  end
end

-- put_left sets a field. The caller saves the sums.
local function put_left(key, sums, field, value)
  drop_left(key, sums, field)
  local _, group, list = entry_of(value)
  sums[group] = sums[group] or {}
  add(sums[group], list, 1)
  redis.call('HSET', key, field, value)
end

-- claimed removes a session that has an owner again, or has ended, from the hashes that have it. The
-- record of the session names them.
local function claimed(record, id)
  local held = redis.call('HGET', record, 'held')
  if not held then
    return
  end
  for key in string.gmatch(held, '%S+') do
    if redis.call('EXISTS', key) == 1 then
      local sums = sums_of(key)
      drop_left(key, sums, 'p:' .. id)
      save_sums(key, sums)
    end
  end
  redis.call('HDEL', record, 'held')
end
