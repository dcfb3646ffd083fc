-- Returns the owner of a session. KEYS: directory, session. ARGV: prefix of nodes.
local known = redis.call('HMGET', KEYS[2], 'node', 'incarnation', 'token', 'ended', 'memory',
  'image')
if not known[3] then
  -- For one lease after the server may have lost data, the session's owner may not have claimed it
  -- again.
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local about = redis.call('HMGET', KEYS[1], 'run', 'born', 'lease')
  if about[1] ~= run or not about[3] then
    return { 'young', '1000' }
  end
  local wait = tonumber(about[2]) + about[3] * 1000 - now
  if wait > 0 then
    return { 'young', text(wait / 1000) }
  end
  return { 'none' }
end
local node = { false, false }
if known[1] ~= '' then
  node = redis.call('HMGET', ARGV[1] .. known[1], 'incarnation', 'info')
end
if node[1] and node[1] == known[2] then
  return { 'ok', known[1], known[3], 'live', node[2], known[4] or '' }
end
return { 'ok', known[1], known[3], '', '', known[4] or '', known[5] or '', known[6] or '' }
