-- Stores a run token. ARGV: id, the sealed token, uses, concurrent runs, runs per minute,
-- life in ms, the maximum number of tokens, origin, 1 for a token that a frame uses.
for i = 3, 5 do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', text(now))
end
if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[7]) then
  return { 'full' }
end
local ends = now + ARGV[6] * 1000
redis.call('HSET', KEYS[1], 'thing', ARGV[2], 'left', ARGV[3], 'at_once', ARGV[4],
  'per_minute', ARGV[5],
  'ends', text(ends), 'minute', '0', 'begun', '0', 'embed', ARGV[9])
cover(KEYS[1], ends)
stand(ARGV[1], ARGV[8], ARGV[9], ends)
return { 'ok' }
