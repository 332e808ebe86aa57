-- Shared by track.lua and view.lua: the counters of the views model, and the publish time of an
-- article that only clients have dated. Needs the part `increments`.

local function append(list, name, value) list[#list + 1], list[#list + 2] = name, value end

-- Adds a view to an article's counters: w_pv + w_uv for the visitor's first of the day, divided by
-- (hours + base)^gamma. Appends the new values to `changes`, fields and values of the hash.
--
-- arg: index in ARGV of UV TTL s, counter TTL s, w_pv, w_uv, base hours and gamma
-- fields, field: the hash's total, score, views, viewed and increments as read, and their index
-- score: the accumulated score so far, after a change of the publish time
-- version: the hash's, after the view
-- Returns 1 for the visitor's first view of the day, the increment, the undecayed sum and the
-- accumulated score as texts, and the TTL that the counters must be given, 0 if they keep theirs.
local function add_view(changes, uv_day, visitor, arg, fields, field, score, published, is_site_dated, now, clock, version)
  local ttl, base_hours, gamma = ARGV[arg + 1] + 0, ARGV[arg + 4] + 0, ARGV[arg + 5] + 0
  local first_today = call('SADD', uv_day, visitor)
  if first_today == 1 then call('EXPIRE', uv_day, ARGV[arg], 'NX') end
  local weight = ARGV[arg + 2] + ARGV[arg + 3] * first_today
  local inc = weight / (max(0, now - published) / 3600 + base_hours) ^ gamma
  -- The accumulated score of a PUT item outlives its counters.
  local total, views, renewed, increments = 0, 0, fields[field + 3] and fields[field + 3] + 0, fields[field + 4]
  local live = renewed and clock < renewed + ttl
  if live then total, views = tonumber(fields[field]), tonumber(fields[field + 2]) end
  local total_text, score_text = format('%.17g', total + weight), format('%.17g', score + inc)
  local n = #changes
  changes[n + 1], changes[n + 2], changes[n + 3], changes[n + 4], changes[n + 5], changes[n + 6] =
    'total', total_text, 'score', score_text, 'views', format('%d', views + 1)
  if not is_site_dated and (increments or not fields[field + 1]) then
    local joined = increments and join_newest(increments, now, weight)
    append(changes, 'increments', joined or increments_library()(increments or '', now, weight, 32, base_hours * 3600, gamma))
  end
  if live and clock - renewed <= min(86400, ttl / 2) then return first_today, inc, total_text, score_text, 0 end
  append(changes, 'viewed', clock)
  if fields[field + 2] and not live then append(changes, 'views_began', version) end
  return first_today, inc, total_text, score_text, ttl
end

-- With items.unknown = list: the date by which a client's report replaces the one so far, or nil. In
-- the first hour any later date does; a report that names none names `begin`, the time of the article's
-- first event, if that was a client's. Afterwards a later date does up to `begin`, so that no one can
-- make an article old by reporting it first.
local function later_date(named, client_date, begin, now)
  if not client_date or not begin then return nil end
  local is_first_hour = now - begin <= 3600
  local date = is_first_hour and min(named or begin + 0, now) or named and min(named, begin + 0)
  return date and date > client_date and date or nil
end
