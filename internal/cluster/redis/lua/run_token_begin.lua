-- Uses a run token once and reserves one of its concurrent runs. ARGV: id, origin, name of
-- the reservation, its life in ms.
local t = redis.call('HMGET', KEYS[1], 'left', 'at_once', 'per_minute', 'ends', 'minute',
  'begun', 'embed')
if not t[1] then
  return { 'unknown', '0' }
end
if tonumber(t[4]) <= now then
  return { 'over', '0' }
end
if tonumber(t[1]) <= 0 then
  return { 'used', '0' }
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now))
if redis.call('ZCARD', KEYS[2]) >= tonumber(t[2]) then
  return { 'busy', '2' }
end
local minute, begun = tonumber(t[5]), tonumber(t[6])
if now - minute >= 60000000 or now < minute then
  minute, begun = now, 0
end
if begun >= tonumber(t[3]) then
  return { 'fast', text(math.floor((minute + 60000000 - now) / 1000000) + 1) }
end
redis.call('HSET', KEYS[1], 'left', text(t[1] - 1), 'minute', text(minute),
  'begun', text(begun + 1))
local till = now + ARGV[4] * 1000
redis.call('ZADD', KEYS[2], text(till), ARGV[3])
cover(KEYS[2], till)
cover(KEYS[1], till)
stand(ARGV[1], ARGV[2], t[7], math.max(till, tonumber(t[4])), 'GT')
return { 'begun', '0' }
