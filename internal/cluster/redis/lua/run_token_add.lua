-- Lays down a run ticket. ARGV: id, the sealed ticket, uses, runs at once, runs
-- in a minute, life in ms, how many may be out, origin, 1 for one that is used in
-- a frame.
for i = 3, 5 do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', text(now))
end
if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[7]) then
  return { 'full' }
end
local ends = now + ARGV[6] * 1000
redis.call('HSET', KEYS[1], 'thing', ARGV[2], 'left', ARGV[3], 'at_once', ARGV[4], 'per_minute', ARGV[5],
  'ends', text(ends), 'minute', '0', 'begun', '0', 'embed', ARGV[9])
cover(KEYS[1], ends)
stand(ARGV[1], ARGV[8], ARGV[9], ends)
return { 'ok' }
