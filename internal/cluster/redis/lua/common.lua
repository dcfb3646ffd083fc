-- The beginning of all scripts. KEYS[1] is the hash of the directory: run is the id of the
-- server that wrote last, born the time when it began, token the last token. Times are
-- microseconds of the server's clock, which a double represents exactly.

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- epoch returns the time when this server began to serve the directory. A server that was
-- restarted, or that took over from another one, may have lost the last writes.
local function epoch()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local known = redis.call('HMGET', KEYS[1], 'run', 'born')
  if known[1] == run then
    return tonumber(known[2])
  end
  redis.call('HSET', KEYS[1], 'run', run, 'born', string.format('%.0f', now))
  return now
end

local function text(n) return string.format('%.0f', n) end

-- following returns a token that is larger than all earlier ones.
local function following(floor)
  local last = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
  local token = math.max(last, floor, now) + 1
  redis.call('HSET', KEYS[1], 'token', text(token))
  return text(token)
end

-- reach raises the last token to one that a node has.
local function reach(token)
  if tonumber(redis.call('HGET', KEYS[1], 'token') or '0') < tonumber(token) then
    redis.call('HSET', KEYS[1], 'token', token)
  end
end

local function publish(channel, event) redis.call('PUBLISH', channel, cjson.encode(event)) end
