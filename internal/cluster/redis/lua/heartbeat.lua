-- Renews a node's lease or starts one. It also runs when memory is full: a renewal
-- needs no memory.
-- KEYS: directory, node, nodes. ARGV: name, instance, incarnation, floor, lease in ms, info,
-- channel of events, process, a process that has ended, this beat, earlier beats.
local born = epoch()
local known = redis.call('HMGET', KEYS[2], 'instance', 'incarnation', 'epoch', 'process', 'beat',
  'seen')
if known[1] and known[1] ~= ARGV[2] then
  return { 'other' }
end
-- What an older epoch has of the processes may be old.
if known[4] and known[4] ~= '' and ARGV[8] ~= '' and known[3] == text(born) then
  if known[4] == ARGV[8] then
    -- Only a copy of the process could have sent another beat.
    if not string.find(' ' .. ARGV[11] .. ' ', ' ' .. known[5] .. ' ', 1, true) then
      return { 'other' }
    end
  elseif known[4] ~= ARGV[9] and now - known[6] < ARGV[5] * 200 then
    -- The other process has sent a heartbeat in the last fifth of a lease.
    return { 'other' }
  end
end
local incarnation = ARGV[3]
if incarnation ~= '0' then
  -- In a new epoch records of sessions may be old. They are not valid until their owners have
  -- claimed the sessions with a new incarnation.
  if known[2] ~= incarnation or known[3] ~= text(born) then
    return { 'expired' }
  end
else
  incarnation = following(tonumber(ARGV[4]))
  -- The node has not reported its usage in this incarnation.
  redis.call('HSETNX', KEYS[2], 'complete', '0')
  -- Cached owners of this node have to be looked up again.
  publish(ARGV[7], {})
end
redis.call('HSET', KEYS[2], 'instance', ARGV[2], 'incarnation', incarnation,
  'epoch', text(born), 'seen', text(now), 'info', ARGV[6],
  'process', ARGV[8], 'beat', ARGV[10])
redis.call('HSET', KEYS[1], 'lease', ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('ZADD', KEYS[3], text(now + ARGV[5] * 1000), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', text(now - 3600 * 1000000))
return { 'ok', incarnation, text(born), text(now) }
