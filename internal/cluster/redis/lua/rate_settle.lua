-- Takes what a gateway has let through out of buckets that all share, and returns
-- what is left in each, which may be less than nothing. It runs also when memory
-- is full. KEYS: buckets. ARGV, for each: requests a second, the most in the
-- bucket, what was let through.
local left = {}
for i, key in ipairs(KEYS) do
  local rate, most, spent = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  local known = redis.call('HMGET', key, 'left', 'at')
  local have = most
  if known[1] then
    -- A clock that was set back brings nothing.
    have = math.min(most, tonumber(known[1]) + math.max(0, now - tonumber(known[2])) / 1000000 * rate)
  end
  -- The debt is bounded: nobody waits for longer than it takes to fill it twice.
  have = math.max(have - spent, -most)
  redis.call('HSET', key, 'left', string.format('%.6f', have), 'at', text(now))
  -- Then it is full again.
  redis.call('PEXPIRE', key, math.ceil(2 * most / rate * 1000) + 1000)
  left[i] = string.format('%.6f', have)
end
return left
