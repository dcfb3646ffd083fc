-- Compares the records of the directory with each other, and returns the records that
-- do not agree. It reads all keys and blocks the server meanwhile.
-- KEYS: directory, nodes. ARGV: prefix of nodes, prefix of sessions, prefix of usage on nodes,
-- prefix of what no node reports.
local wrong = {}
local function report(...) wrong[#wrong + 1] = table.concat({ ... }) end
local function keys(prefix)
  -- The braces of a cluster's name have no meaning in a pattern.
  return redis.call('KEYS', prefix .. '*')
end
local last = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
-- Keys expire by a clock of milliseconds, and scores by one of microseconds.
local slack = 1000000

for _, key in ipairs(keys(ARGV[1])) do
  local name = string.sub(key, #ARGV[1] + 1)
  local node = redis.call('HMGET', key, 'instance', 'incarnation', 'seen', 'info')
  if not (node[1] and node[2] and node[3] and node[4]) then
    report('the node ', name, ' lacks a field')
  elseif tonumber(node[2]) > last then
    report('the node ', name, ' has the incarnation ', node[2], ' above the last token ',
      text(last))
  end
  if redis.call('PTTL', key) == -1 then
    report('the lease of the node ', name, ' has no end')
  end
  if not redis.call('ZSCORE', KEYS[2], name) then
    report('the node ', name, ' is not in the list of nodes')
  end
end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], text(now + slack), '+inf')) do
  if redis.call('EXISTS', ARGV[1] .. name) == 0 then
    report('the listed node ', name, ' has no lease')
  end
end

local tokens = {}
for _, key in ipairs(keys(ARGV[2])) do
  local id = string.sub(key, #ARGV[2] + 1)
  local s = redis.call('HMGET', key, 'node', 'incarnation', 'token')
  local token = tonumber(s[3] or '')
  if redis.call('PTTL', key) == -1 then
    report('the session ', id, ' has no end')
  end
  if not (s[1] and s[2] and token) then
    report('the session ', id, ' lacks a field')
  elseif token > last then
    report('the session ', id, ' has the token ', s[3], ' above the last one ', text(last))
  elseif tokens[s[3]] then
    report('the sessions ', id, ' and ', tokens[s[3]], ' have one token')
  elseif (s[1] == '') ~= (s[2] == '') then
    report('the session ', id, ' has the node "', s[1], '" and the incarnation "', s[2], '"')
  elseif s[1] ~= '' then
    local node = tonumber(redis.call('HGET', ARGV[1] .. s[1], 'incarnation') or s[2])
    if tonumber(s[2]) > node then
      report('the session ', id, ' is of a later incarnation than its node')
    elseif token <= tonumber(s[2]) then
      report('the session ', id, ' was claimed before its node\'s incarnation')
    end
  end
  tokens[s[3] or ''] = id
end

for _, key in ipairs(keys(ARGV[3])) do
  if redis.call('PTTL', key) == -1 then
    report('the usage ', key, ' has no end')
  end
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'n:' then
      local incarnation = tonumber(string.match(all[i + 1], '^(%d+) ') or '')
      if not incarnation or incarnation > last then
        report('the usage ', all[i], ' is of no incarnation: ', all[i + 1])
      end
    end
  end
end
for _, key in ipairs(keys(ARGV[4])) do
  if redis.call('PTTL', key) == -1 then
    report('what no node reports has no end: ', key)
  end
  local expected, sums = {}, sums_of(key)
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if string.find(all[i], '^[ps]:') then
      local _, group, list = entry_of(all[i + 1])
      expected[group] = expected[group] or {}
      sums[group] = sums[group] or {}
      add(expected[group], list, 1)
    end
  end
  for group, sum in pairs(sums) do
    local want = expected[group] or {}
    for n = 1, math.max(#sum, #want) do
      if math.abs((sum[n] or 0) - (want[n] or 0)) > 0.01 then
        report('the sum of ', group, ' in ', key, ' is ', joined(sum), ', not ', joined(want))
        break
      end
    end
  end
end
return wrong
