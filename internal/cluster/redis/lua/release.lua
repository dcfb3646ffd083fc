-- Ends the ownership of a session: park releases the session, forget removes it. end records why it
-- has ended. It also runs when memory is full.
-- KEYS: directory, session. ARGV: session, token, park, end or forget, channel of events, 1 for a
-- session that was running code, the reason of its end, how long to keep its record in ms, the
-- memory and the image of a session that is parked.
local known = redis.call('HMGET', KEYS[2], 'node', 'token')
if not known[2] then
  return { 'ok' }
end
if tonumber(known[2]) > tonumber(ARGV[2]) then
  return { 'taken', known[1] }
end
local event = { session = ARGV[1] }
if ARGV[3] == 'park' then
  -- A record with a smaller token is older than the claim of the caller.
  redis.call('HSET', KEYS[2], 'node', '', 'incarnation', '', 'token', ARGV[2])
  if ARGV[9] ~= '' then -- a node that could not adopt the session does not know them
    redis.call('HSET', KEYS[2], 'memory', ARGV[8], 'image', ARGV[9])
  end
  reach(ARGV[2])
  event.works = ARGV[5] == '1'
else
  claimed(KEYS[2], ARGV[1])
  local name = redis.call('HGET', KEYS[2], 'name')
  if name and redis.call('GET', name) == ARGV[1] then
    redis.call('DEL', name)
  end
  if ARGV[3] == 'end' then
    redis.call('HSET', KEYS[2], 'ended', ARGV[6])
    redis.call('HDEL', KEYS[2], 'name')
    redis.call('PEXPIRE', KEYS[2], ARGV[7])
    return { 'ok' }
  end
  redis.call('DEL', KEYS[2])
end
publish(ARGV[4], event)
return { 'ok' }
