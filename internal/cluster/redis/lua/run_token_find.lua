-- Returns a run token that is valid or has a running run. KEYS: token, its reservations.
local known = redis.call('HMGET', KEYS[1], 'thing', 'ends')
local running = redis.call('ZCOUNT', KEYS[2], '(' .. text(now), '+inf') > 0
if not known[1] or tonumber(known[2]) <= now and not running then
  return {}
end
return { known[1] }
