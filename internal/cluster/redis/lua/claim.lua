-- Makes a node the owner of a session.
-- KEYS: directory, session, node, nodes. ARGV: session, name, incarnation, mode, last token,
-- lease in ms, time to live in ms, prefix of nodes, channel of events, grace in ms, the
-- node's estimate of this clock, 0 for unknown, the node that wrote the copy, '' for none.
local born = epoch()
if redis.call('HGET', KEYS[3], 'incarnation') ~= ARGV[3] then
  return { 'expired' }
end
local known = redis.call('HMGET', KEYS[2], 'node', 'incarnation', 'token')
local there = known[3]
local mine = there and known[1] == ARGV[2] and known[2] == ARGV[3]
local mode = ARGV[4]
if mode == 'new' then
  if mine then -- the answer to the first claim was lost
    return { 'ok', known[3] }
  end
  -- An earlier process of the node may have lost the session.
  if there and known[1] ~= ARGV[2] then
    return { 'taken', known[1] }
  end
elseif mode == 'keep' then
  -- A record with a smaller token is older than the node's own claim: the server has lost the
  -- last writes.
  if there and known[1] ~= ARGV[2] and tonumber(known[3]) > tonumber(ARGV[5]) then
    return { 'taken', '' }
  end
elseif not mine then
  if redis.call('HGET', KEYS[2], 'ended') then
    return { 'ended' }
  end
  -- The record was lost, and its node will claim the session again.
  if not there and ARGV[12] ~= '' and ARGV[12] ~= ARGV[2] and
    tonumber(redis.call('ZSCORE', KEYS[4], ARGV[12]) or '0') > now then
    return { 'taken', ARGV[12] }
  end
  if there and known[1] ~= '' then
    local other = redis.call('HGET', ARGV[8] .. known[1], 'incarnation')
    if other == known[2] then
      return { 'taken', known[1] }
    end
    -- The owner is missing since the end of its lease, or since its restart: an
    -- incarnation is a time.
    local since = tonumber(other or redis.call('ZSCORE', KEYS[4], known[1]) or '0')
    local left = since + ARGV[10] * 1000 - now
    if since <= now and left > 0 then
      return { 'missed', known[1], text(left / 1000) }
    end
  end
  -- A clock that was set forward has ended leases too early. A request that was delayed
  -- looks the same and is refused too.
  if ARGV[11] ~= '0' and now - tonumber(ARGV[11]) > ARGV[6] * 200 then
    return { 'young', text(ARGV[6] / 1000 + 1) }
  end
  -- The owner may not have claimed the session again yet.
  local wait = born + ARGV[6] * 1000 - now
  if wait > 0 then
    return { 'young', text(wait / 1000000 + 1) }
  end
end
local token = following(math.max(tonumber(ARGV[5]), tonumber(known[3] or '0')))
redis.call('HSET', KEYS[2], 'node', ARGV[2], 'incarnation', ARGV[3], 'token', token)
redis.call('PEXPIRE', KEYS[2], ARGV[7])
claimed(KEYS[2], ARGV[1])
local name = redis.call('HGET', KEYS[2], 'name')
if name and redis.call('GET', name) == ARGV[1] then
  redis.call('PEXPIRE', name, ARGV[7])
end
publish(ARGV[9], { session = ARGV[1], node = ARGV[2] })
return { 'ok', token }
