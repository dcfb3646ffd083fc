-- The common part of the scripts of run tokens. KEYS: token, its reservations, all valid
-- tokens, those of its origin, origins of frames. The score of a member of a set is the end
-- of the member, in microseconds.

-- cover keeps a key alive at least until then.
local function cover(key, till)
  local left = math.ceil((till - now) / 1000) + 1
  if redis.call('PTTL', key) < left then
    redis.call('PEXPIRE', key, text(left))
  end
end

-- stand lists the token until then. With GT in how, a later end is kept.
local function stand(id, origin, embed, till, how)
  local sets = { { KEYS[3], id }, { KEYS[4], id } }
  if embed == '1' then
    sets[3] = { KEYS[5], id .. ' ' .. origin }
  end
  for _, s in ipairs(sets) do
    if how then
      redis.call('ZADD', s[1], how, text(till), s[2])
    else
      redis.call('ZADD', s[1], text(till), s[2])
    end
    cover(s[1], till)
  end
end

local function forget(id, origin)
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('ZREM', KEYS[3], id)
  redis.call('ZREM', KEYS[4], id)
  redis.call('ZREM', KEYS[5], id .. ' ' .. origin)
end
