
-- ---- Failures ----

-- Failures of accounts and addresses. KEYS[1] is the base of all keys of these: `sluice:<installation>:{failures}`.
--
--   <base>:<kind>   hash: the failures of a count by its name: `<booking>:<time>` of each with a space behind it, and
--                   `+:<time>` if those of that time and before it are forgiven
--   <base>:z:<kind> sorted set: the names by the time of the last of these
--
-- A node sends with each question what it has booked itself: a server that has lost its counts, or was away, learns
-- them so.

local function failures_of(base, kind, name, now, window)
  local found = { base = base, kind = kind, name = name, forgiven = 0, list = {}, known = {} }
  local text = call('HGET', base .. ':' .. kind, name) or ''
  for id, at in string.gmatch(text, '([^ ]+):(%d+) ') do
    -- A clock that went back must not make failures count for longer.
    at = math.min(tonumber(at), now)
    if at > now - window then
      if id == '+' then
        found.forgiven = at
      else
        found.known[id] = true
        found.list[#found.list + 1] = { id = id, at = at }
      end
    end
  end
  return found
end

-- Adds what a node has booked, unless it is known, old or forgiven.
local function learn(found, id, at, now, window)
  if found.known[id] or at <= found.forgiven or at <= now - window then return end
  found.list[#found.list + 1] = { id = id, at = at }
end

-- Sorts by time, and leaves the latest.
local function trim(found, most)
  table.sort(found.list, function(one, other) return one.at < other.at end)
  while #found.list > most do table.remove(found.list, 1) end
end

local function keep_failures(found, now, window, watched)
  local h, z = found.base .. ':' .. found.kind, found.base .. ':z:' .. found.kind
  local text, latest = '', found.forgiven
  if latest > 0 then text = format('+:%.0f ', latest) end
  for _, failure in ipairs(found.list) do
    text = text .. format('%s:%.0f ', failure.id, failure.at)
    latest = math.max(latest, failure.at)
  end
  if latest == 0 then
    call('HDEL', h, found.name)
    call('ZREM', z, found.name)
    return
  end
  call('HSET', h, found.name, text)
  call('ZADD', z, format('%.0f', latest), found.name)
  local old = call('ZRANGEBYSCORE', z, '-inf', format('%.0f', now - window), 'LIMIT', 0, AT_ONCE)
  if #old > 0 then
    call('HDEL', h, unpack(old))
    call('ZREM', z, unpack(old))
  end
  local more = call('ZCARD', z) - watched
  if more > 0 then
    local popped = call('ZRANGE', z, 0, math.min(more, AT_ONCE) - 1)
    call('HDEL', h, unpack(popped))
    call('ZREM', z, unpack(popped))
  end
  local seconds = math.ceil(window / SECOND) + 60
  call('EXPIRE', h, seconds)
  call('EXPIRE', z, seconds)
end

-- now, window, most, watched, id, not after, (kind, name, count, (id, age)...)... : books an attempt as a failure in
-- each of these counts, unless one of them is full.
-- -> 0, or 1 if one is full; the microseconds until the first that is full has room; and for each count how many
-- microseconds ago its failures were forgiven, -1 if they were not
local function book_failure(keys, args)
  local base, now = keys[1], clock(args[1])
  local window, most, watched = tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  if is_late(now, args[6]) then return { LATE } end
  local counts, ages, wait, place = {}, {}, nil, 7
  while args[place] do
    local found = failures_of(base, args[place], args[place + 1], now, window)
    local last = place + 2 + 2 * tonumber(args[place + 2])
    for own = place + 3, last, 2 do
      learn(found, args[own], now - math.max(tonumber(args[own + 1]), 0), now, window)
    end
    trim(found, most)
    if #found.list >= most and not wait then
      wait = math.max(found.list[1].at + window - now, 1)
    end
    counts[#counts + 1] = found
    ages[#ages + 1] = found.forgiven > 0 and now - found.forgiven or -1
    place = last + 1
  end
  for _, found in ipairs(counts) do
    if not wait then found.list[#found.list + 1] = { id = args[5], at = now } end
    keep_failures(found, now, window, watched)
  end
  if wait then return { 1, wait, unpack(ages) } end
  return { OK, 0, unpack(ages) }
end

-- now, window, watched, id, age, (kind, name)... : takes an attempt back. If there is an age, all failures of the first
-- count are forgiven that are at least so many microseconds old.
local function take_back_failure(keys, args)
  local base, now = keys[1], clock(args[1])
  local window, watched = tonumber(args[2]), tonumber(args[3])
  for place = 6, #args, 2 do
    local found = failures_of(base, args[place], args[place + 1], now, window)
    local forgiven = 0
    if place == 6 and args[5] ~= '' then
      forgiven = now - math.max(tonumber(args[5]), 0)
      found.forgiven = math.max(found.forgiven, forgiven)
    end
    local left = {}
    for _, failure in ipairs(found.list) do
      if failure.id ~= args[4] and failure.at > forgiven then left[#left + 1] = failure end
    end
    found.list = left
    keep_failures(found, now, window, watched)
  end
  return OK
end

-- Without memory a node counts for itself.
register('book_failure', book_failure, {})
register('take_back_failure', take_back_failure, { 'allow-oom' })
