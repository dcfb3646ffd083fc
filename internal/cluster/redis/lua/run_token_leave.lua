-- Ends a reservation of a run token. It also runs when memory is full. ARGV: id, origin,
-- name of the reservation.
redis.call('ZREM', KEYS[2], ARGV[3])
local t = redis.call('HMGET', KEYS[1], 'ends', 'embed')
if not t[1] then
  return { 'ok' }
end
local till = tonumber(t[1])
local last = redis.call('ZRANGE', KEYS[2], 0, 0, 'REV', 'WITHSCORES')
if last[2] then
  till = math.max(till, tonumber(last[2]))
end
if till <= now then
  forget(ARGV[1], ARGV[2])
else
  stand(ARGV[1], ARGV[2], t[2], till, 'XX')
end
return { 'ok' }
