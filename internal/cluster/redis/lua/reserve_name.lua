-- Gives a name to a snapshot or a volume for a time, and frees it when the time is 0.
-- KEYS: directory, name. ARGV: the id of its holder, time in ms.
local holder = redis.call('GET', KEYS[2])
if ARGV[2] == '0' then
  if holder == ARGV[1] then
    redis.call('DEL', KEYS[2])
  end
  return { 'ok' }
end
if holder and holder ~= ARGV[1] then
  return { 'taken' }
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return { 'ok' }
