-- Takes admitted requests out of shared buckets, and returns the number that is left in
-- each; a negative number is a debt. It also runs when memory is full. KEYS: buckets. ARGV,
-- for each: requests per second, size of the bucket, admitted requests.
local left = {}
for i, key in ipairs(KEYS) do
  local rate, most = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1])
  local spent = tonumber(ARGV[3 * i])
  local known = redis.call('HMGET', key, 'left', 'at')
  local have = most
  if known[1] then
    -- A clock that was set back adds nothing.
    local passed = math.max(0, now - tonumber(known[2])) / 1000000
    have = math.min(most, tonumber(known[1]) + passed * rate)
  end
  -- The debt is bounded: filling the bucket twice pays it.
  have = math.max(have - spent, -most)
  redis.call('HSET', key, 'left', string.format('%.6f', have), 'at', text(now))
  -- The bucket is full again when it expires.
  redis.call('PEXPIRE', key, math.ceil(2 * most / rate * 1000) + 1000)
  left[i] = string.format('%.6f', have)
end
return left
