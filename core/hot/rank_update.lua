-- Writes articles' scores to the rank of a model (core/hot/models.h), unless a later version has
-- been written. For views, also writes their totals to the buckets of mode = current.
--
-- An article that leaves the rank keeps its version until ten minutes after its last write, so that
-- an earlier state that arrives late does not bring it back. Older versions are removed when the
-- article is written again, or by chance: for each article that leaves, the script examines fifty
-- random versions, up to a thousand in a call. If there are more than twice as many versions as the
-- rank may have members, plus a thousand, it also removes recent ones.
--
-- KEYS 1 hot:rank or hot:score
--      2 hot:placed or hot:placed:views, of the same rank (or both of :next, during a rebuild)
--      3 hot:published  4 hot:hidden  5 hot:rank:meta  6 hot:unplaced  [7 hot:current:index
--      8… hot:current:{hour}]
-- ARGV 1 the parameters that the rank depends on, '': scores are accumulated  2 schema
--      3 the model's name, after 'next:' for a rank being rebuilt  4 minimum score
--      5 maximum number of members  6 TTL of a bucket s  then for each article: id
--      score, '' for none  publish time or '' without counters  version
--      with KEYS 7 also total or ''  index of its bucket's key  the hour
-- Returns the number of articles ranked; 0 if the rank has other parameters. In that case, and
-- during a rebuild, the ids go to hot:unplaced, where processes with the rank's parameters find
-- them.
local index = KEYS[7]
local args_per_article = index and 7 or 4
local n = (#ARGV - 6) / args_per_article
local ids = {}
for i = 1, n do ids[i] = ARGV[args_per_article * (i - 1) + 7] end
if ARGV[1] ~= '' then
  local field = ARGV[3]
  local meta, is_live = call('HMGET', KEYS[5], field, 'next:' .. field), field:sub(1, 5) ~= 'next:'
  if is_live and not meta[1] and call('EXISTS', KEYS[1]) == 0 then
    call('HSET', KEYS[5], field, ARGV[1], 'schema', ARGV[2])
    meta[1] = ARGV[1]
  end
  if is_live and (meta[2] or meta[1] ~= ARGV[1]) then call('SADD', KEYS[6], unpack(ids)) end
  if meta[1] ~= ARGV[1] then return 0 end
end

local now = call('TIME')[1] + 0
local hidden_until, versions = call('ZMSCORE', KEYS[4], unpack(ids)), call('HMGET', KEYS[2], unpack(ids))
local score_args, version_args, date_args, unranked, uncounted = {}, {}, {}, {}, {}
-- True if a state of this version may still arrive. The clock may have gone back.
local function is_recent(v) return v / 1e6 > now - 600 and v / 1e6 < now + 600 end
local function is_written(i) return versions[i] and versions[i] + 0 >= ARGV[args_per_article * (i - 1) + 10] + 0 end
local kept = {}
for i, id in ipairs(ids) do
  if is_written(i) and not is_recent(versions[i]) then kept[#kept + 1] = id end
end
local has_left = {}
for i, score in ipairs(#kept > 0 and call('ZMSCORE', KEYS[1], unpack(kept)) or {}) do
  has_left[kept[i]] = not score
end
local bucket_args, bounds = {}, {}  -- by index of the bucket's key; a bound is the greatest total and the hour
for i, id in ipairs(ids) do
  local at = args_per_article * (i - 1) + 7
  local score, date, v, bucket = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], index and KEYS[ARGV[at + 5] + 0]
  local until_s = tonumber(hidden_until[i] or nil)
  local hidden = until_s and until_s > now and until_s == floor(until_s)  -- not one that is only embargoed
  if not hidden and (not is_written(i) or has_left[id]) then
    if score ~= '' or is_recent(v) then
      version_args[#version_args + 1], version_args[#version_args + 2] = id, v
    end
    if score == '' then
      unranked[#unranked + 1] = id
      if date == '' then uncounted[#uncounted + 1] = id end
      if bucket then call('ZREM', bucket, id) end
    else
      score_args[#score_args + 1], score_args[#score_args + 2] = score, id
      date_args[#date_args + 1], date_args[#date_args + 2] = date, id
      if bucket and ARGV[at + 4] ~= '' then
        local total, b = ARGV[at + 4], ARGV[at + 5] + 0
        local args, bound = bucket_args[b] or {}, bounds[b] or {total, ARGV[at + 6]}
        args[#args + 1], args[#args + 2] = total, id
        if total + 0 > bound[1] + 0 then bound[1] = total end
        bucket_args[b], bounds[b] = args, bound
      end
    end
  end
end
for b, args in pairs(bucket_args) do
  call('ZADD', KEYS[b], unpack(args))
  call('EXPIRE', KEYS[b], ARGV[6])
  call('ZADD', index, 'GT', unpack(bounds[b]))
end
-- members: articles that are not in the rank. Removes their versions, unless these are recent.
local function forget_versions(members, also_recent)
  if #members == 0 then return end
  local old = {}
  for i, v in ipairs(call('HMGET', KEYS[2], unpack(members))) do
    if v and (also_recent or not is_recent(v)) then old[#old + 1] = members[i] end
  end
  if #old > 0 then call('HDEL', KEYS[2], unpack(old)) end
end
local removed = 0
local function remove_members(members)
  if #members == 0 then return end
  removed = removed + call('ZREM', KEYS[1], unpack(members))
  forget_versions(members)
end
local function forget_versions_kept_earlier()
  if removed == 0 then return end
  local sample, left = call('HRANDFIELD', KEYS[2], -50 * min(removed, 20)), {}
  for i, score in ipairs(#sample > 0 and call('ZMSCORE', KEYS[1], unpack(sample)) or {}) do
    if not score then left[#left + 1] = sample[i] end
  end
  forget_versions(left, call('HLEN', KEYS[2]) > 2 * ARGV[5] + 1000)
end
if #version_args > 0 then call('HSET', KEYS[2], unpack(version_args)) end
remove_members(unranked)
if #uncounted > 0 then call('ZREM', KEYS[3], unpack(uncounted)) end
if #score_args == 0 then
  forget_versions_kept_earlier()
  return 0
end
-- Trim only when the rank has grown: first members whose score fell below the minimum, then the
-- lowest beyond the cap.
if call('ZADD', KEYS[1], unpack(score_args)) > 0 then
  local max_members = ARGV[5] + 0
  call('ZADD', KEYS[3], unpack(date_args))
  call('ZREMRANGEBYRANK', KEYS[3], 0, -max_members - 1)
  if ARGV[4] ~= '-inf' then remove_members(call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[4], 'LIMIT', 0, 1000)) end
  local excess = call('ZCARD', KEYS[1]) - max_members
  while excess > 0 do
    remove_members(call('ZRANGE', KEYS[1], 0, min(excess, 1000) - 1))
    excess = excess - 1000
  end
end
forget_versions_kept_earlier()
return #score_args / 2
