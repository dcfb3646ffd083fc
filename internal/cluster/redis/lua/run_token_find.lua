-- Returns a run ticket that is good, or has a run that goes on. KEYS: ticket, its
-- places.
local known = redis.call('HMGET', KEYS[1], 'thing', 'ends')
if not known[1] or tonumber(known[2]) <= now and redis.call('ZCOUNT', KEYS[2], '(' .. text(now), '+inf') == 0 then
  return {}
end
return { known[1] }
