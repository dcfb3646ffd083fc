-- Compares the run tokens with their indexes, and returns the records that do not
-- agree. It reads all keys and blocks the server meanwhile.
-- KEYS: valid tokens, origins of frames. ARGV: prefix of tokens, prefix of places,
-- prefix of origins.
local wrong = {}
local function report(...) wrong[#wrong + 1] = table.concat({ ... }) end
-- count returns the number of members of a set that have not ended.
local function count(key) return redis.call('ZCOUNT', key, '(' .. text(now), '+inf') end

local listed, embedded = 0, 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now), '+inf')) do
  listed = listed + 1
  local t = redis.call('HMGET', ARGV[1] .. id, 'left', 'at_once', 'embed')
  if not t[1] then
    report('the listed token ', id, ' does not exist')
  else
    if tonumber(t[1]) < 0 then
      report('the token ', id, ' has ', t[1], ' uses left')
    end
    if count(ARGV[2] .. id) > tonumber(t[2]) then
      report('the token ', id, ' has more runs than it allows')
    end
    if t[3] == '1' then
      embedded = embedded + 1
    end
  end
end
local of_origins = 0
for _, key in ipairs(redis.call('KEYS', ARGV[3] .. '*')) do
  of_origins = of_origins + count(key)
end
if of_origins ~= listed then
  report(text(listed), ' tokens are valid, and ', text(of_origins), ' are listed by origin')
end
if count(KEYS[2]) ~= embedded then
  report(text(embedded), ' tokens are for frames, and ', text(count(KEYS[2])), ' are listed')
end
return wrong
