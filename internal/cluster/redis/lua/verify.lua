-- Returns those of a node's sessions whose records are missing or do not agree.
-- KEYS: directory, node. ARGV: prefix of sessions, name, incarnation; then the id and the token of
-- each session.
local answer = { 'ok' }
if redis.call('HGET', KEYS[2], 'incarnation') ~= ARGV[3] then
  return { 'expired' }
end
for i = 4, #ARGV, 2 do
  local known = redis.call('HMGET', ARGV[1] .. ARGV[i], 'node', 'incarnation', 'token')
  if known[1] ~= ARGV[2] or known[2] ~= ARGV[3] or known[3] ~= ARGV[i + 1] then
    answer[#answer + 1] = ARGV[i]
  end
end
return answer
