#!lua name=@LIBRARY@

-- The counters of a project, as functions of the Redis server: each is one decision, atomic, in one round trip.
--
-- KEYS[1] is the base of all keys of a project, with its hash tag: `sluice:<installation>:{p<id>}`.
--
--   <base>:s        hash: e (the epoch under which it was built), g (its generation: a number that is new whenever it
--                   is closed to be built anew), o (1 when open), me (the epoch under which the month is known), ml
--                   and mp (the latest month and the one before), m<YYYYMM> (its spend)
--   <base>:r        hash: the reservations, id -> "<key> <amount>"; an id begins with its node and a dot
--   <base>:o        hash: the sum that is reserved, by key; `*` for all
--   <base>:k:<key>  hash: e (the epoch under which its hour is known), reset, qn and an (the counts of the lists), x
--                   (the time at which a gate last set the expiry of this and of s)
--   <base>:q:<key>  list: the times of requests that were admitted, oldest first
--   <base>:a:<key>  list: the times of all requests, for loop detection
--   <base>:h:<key>  hash: the spend by second of the ledger; t for their sum
--   <base>:z:<key>  sorted set: those seconds by the second of this server in which they began to count
--
-- Numbers are doubles here. Times are microseconds, exact for centuries; money is text, and its dollars and
-- nano-dollars are calculated apart, so that nine billion dollars are exact.
--
-- An epoch is the run id of the server, a colon, and the number of `beat`, which grows with every loss.

local NANO = 1000000000
local SECOND = 1000000
local HOUR = 3600
local EXACT_REQUESTS = 10000
local WINDOW_PARTS = 3600
-- The expiry of what a gate uses is set once in so many seconds.
local EXPIRY_INTERVAL = 60
-- All that is not used for so long is forgotten, in seconds: a project is built anew from the ledger then.
local KEEP_PROJECT = 172800
local KEEP_KEY = 90000
local KEEP_HOUR = 7300
-- The entries that one command takes.
local AT_ONCE = 500

local OK, LOOP, RATE, BUDGET, CAP, FULL, LATE, LOST = 0, 1, 2, 3, 4, 5, 8, 9

-- While a library is loaded there is no `redis.call`, and nothing of `math` and `string`.
local function call(...) return redis.call(...) end
local function format(...) return string.format(...) end
local function sub(...) return string.sub(...) end
local function floor(number) return number - number % 1 end

-- The time in microseconds: this server's, or that of a test.
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local time = call('TIME')
  return time[1] * SECOND + time[2]
end

-- ---- Money ----

local function money(text)
  if not text or text == '' then return 0, 0 end
  local length = #text
  if length <= 9 then return 0, tonumber(text) end
  return tonumber(sub(text, 1, length - 9)), tonumber(sub(text, length - 8))
end

local function text_of(dollars, nanos)
  if dollars < 0 then return '0' end
  if dollars == 0 then return format('%d', nanos) end
  return format('%d%09d', dollars, nanos)
end

local function plus(d1, n1, d2, n2)
  local d, n = d1 + d2, n1 + n2
  if n >= NANO then return d + 1, n - NANO end
  return d, n
end

local function minus(d1, n1, d2, n2)
  local d, n = d1 - d2, n1 - n2
  if n < 0 then return d - 1, n + NANO end
  return d, n
end

local function exceeds(d1, n1, d2, n2)
  return d1 > d2 or (d1 == d2 and n1 > n2)
end

local function sum(one, other)
  local d1, n1 = money(one)
  return text_of(plus(d1, n1, money(other)))
end

local function difference(one, other)
  local d1, n1 = money(one)
  return text_of(minus(d1, n1, money(other)))
end

local function is_more(one, other)
  local d1, n1 = money(one)
  return exceeds(d1, n1, money(other))
end

-- ---- Months ----

-- The name of the calendar month of a time, UTC.
local function month_of(now)
  local z = floor(now / (86400 * SECOND)) + 719468
  local era = floor(z / 146097)
  local doe = z - era * 146097
  local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
  local mp = floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return format('m%04d%02d', year, month)
end

-- Makes a month the latest, if it is. Only one month before it is kept.
local function roll(base, month)
  local known = call('HMGET', base .. ':s', 'ml', 'mp')
  local latest = known[1]
  if latest and month <= latest then return latest end
  if latest then
    if known[2] then call('HDEL', base .. ':s', known[2]) end
    call('HSET', base .. ':s', 'mp', latest)
  end
  call('HSET', base .. ':s', 'ml', month)
  return month
end

-- What was spent in a month. A clock that has shown a later month and went back frees nothing: the larger sum
-- counts.
local function month_spent(base, month)
  local known = call('HMGET', base .. ':s', 'ml', month)
  local latest, spent = known[1], known[2] or '0'
  if not latest then return '0' end
  if latest > month then
    local later = call('HGET', base .. ':s', latest) or '0'
    if is_more(later, spent) then return later end
  end
  return spent
end

local function month_add(base, month, amount)
  local latest = roll(base, month)
  local key = base .. ':s'
  call('HSET', key, month, sum(call('HGET', key, month), amount))
  if latest > month then call('HSET', key, latest, sum(call('HGET', key, latest), amount)) end
end

local function month_raise(base, month, least)
  roll(base, month)
  local key = base .. ':s'
  local known = call('HGET', key, month) or '0'
  if is_more(least, known) then call('HSET', key, month, least) end
end

-- ---- Hours ----

-- What was spent in the hour that ends now.
local function hour_spent(base, key, now)
  local h, z = base .. ':h:' .. key, base .. ':z:' .. key
  local second = floor(now / SECOND)
  local last = call('ZRANGE', z, -1, -1, 'WITHSCORES')
  if not last[1] then return '0' end
  if tonumber(last[2]) > second + HOUR then
    -- From a clock that has gone back since: they count for an hour from now on.
    for _, later in ipairs(call('ZRANGEBYSCORE', z, '(' .. format('%d', second + HOUR), '+inf')) do
      call('ZADD', z, second, later)
    end
  end
  local oldest = second - HOUR
  if tonumber(last[2]) < oldest then
    call('DEL', h, z)
    return '0'
  end
  local total = call('HGET', h, 't') or '0'
  local until_oldest = '(' .. format('%d', oldest)
  local gone = call('ZRANGEBYSCORE', z, '-inf', until_oldest, 'LIMIT', 0, AT_ONCE)
  while #gone > 0 do
    for _, amount in ipairs(call('HMGET', h, unpack(gone))) do total = difference(total, amount) end
    call('HDEL', h, unpack(gone))
    call('ZREM', z, unpack(gone))
    call('HSET', h, 't', total)
    gone = call('ZRANGEBYSCORE', z, '-inf', until_oldest, 'LIMIT', 0, AT_ONCE)
  end
  return total
end

-- Counts an amount for a second of the ledger, from a second of this server's on.
local function hour_add(base, key, second, from, amount)
  local h, z = base .. ':h:' .. key, base .. ':z:' .. key
  local known = call('HMGET', h, second, 't')
  local added = call('HSET', h, second, sum(known[1], amount), 't', sum(known[2], amount))
  call('ZADD', z, 'GT', from, second)
  -- An amount comes within an hour of its second, or not at all, and counts for an hour.
  if added > 0 then
    call('EXPIRE', h, KEEP_HOUR)
    call('EXPIRE', z, KEEP_HOUR)
  end
end

-- Forgets the seconds up to that of a reset, and all requests that loop detection has seen.
local function reset_key(base, key, reset)
  call('DEL', base .. ':a:' .. key)
  local h, z = base .. ':h:' .. key, base .. ':z:' .. key
  local until_second = floor(tonumber(reset) / SECOND)
  local total = call('HGET', h, 't')
  if not total then return end
  for _, second in ipairs(call('ZRANGE', z, 0, -1)) do
    if tonumber(second) <= until_second then
      total = difference(total, call('HGET', h, second))
      call('HDEL', h, second)
      call('ZREM', z, second)
    end
  end
  call('HSET', h, 't', total)
end

-- Takes over the last reset of a key as a node knows it; an older one changes nothing. Returns the one that counts.
local function check_reset(base, key, known, reset)
  if reset == '' or (known and tonumber(known) >= tonumber(reset)) then return known end
  reset_key(base, key, reset)
  call('HSET', base .. ':k:' .. key, 'reset', reset, 'an', 0)
  return reset
end

-- ---- Requests ----

local function time_and_count(entry)
  local colon = string.find(entry, ':', 1, true)
  if not colon then return tonumber(entry), 1 end
  return tonumber(sub(entry, 1, colon - 1)), tonumber(sub(entry, colon + 1))
end

-- A list is forgotten once all in it has left its window, what is added within the next interval included.
local function expire(list, length)
  call('EXPIRE', list, math.ceil(length / SECOND) + 2 * EXPIRY_INTERVAL)
end

local function interval_of(time)
  return floor(time / (EXPIRY_INTERVAL * SECOND))
end

-- The requests in a list within the window that ends now, the time of the oldest, and the entry of the newest. `count`
-- is what was counted last.
local function requests(list, count, now, length)
  local last = call('LINDEX', list, -1)
  if not last then return 0 end
  local latest = time_and_count(last)
  if latest <= now - length then
    call('DEL', list)
    return 0
  end
  if latest > now + 2 * length then
    -- From a clock that has gone back since: they count for a window from now on.
    call('DEL', list)
    last = format('%.0f:%d', now, count)
    call('RPUSH', list, last)
    expire(list, length)
    return count, now, last
  end
  local first = call('LINDEX', list, 0)
  while first do
    local at, times = time_and_count(first)
    if at > now - length then return count, at, last end
    call('LPOP', list)
    count = count - times
    first = call('LINDEX', list, 0)
  end
  return 0
end

-- Counts a request behind the newest entry of its list, and returns its time. Above so many requests times are rounded
-- up to a part of the window: a list stays short, and a request counts for at most that part too long.
local function note_request(list, now, length, limit, newest)
  local last, times = 0, 0
  if newest then last, times = time_and_count(newest) end
  local at = now
  if limit <= EXACT_REQUESTS then
    call('RPUSH', list, format('%.0f', at))
  else
    local grain = math.max(floor(length / WINDOW_PARTS), 1)
    at = math.ceil(now / grain) * grain
    if last >= at then
      call('LSET', list, -1, format('%.0f:%d', last, times + 1))
      return last
    end
    call('RPUSH', list, format('%.0f:1', at))
  end
  if interval_of(last) ~= interval_of(at) then expire(list, length) end
  return at
end

-- The microseconds until enough requests have left the window for one more to fit.
local function until_room(list, count, now, length, limit)
  local over = count + 1 - limit
  local place = 0
  while over > 0 do
    local entries = call('LRANGE', list, place, place + 99)
    if #entries == 0 then return length end
    for _, entry in ipairs(entries) do
      local at, times = time_and_count(entry)
      over = over - times
      if over <= 0 then return math.max(at + length - now, 0) end
    end
    place = place + 100
  end
  return 0
end

-- ---- Reservations ----

local function reserved(base, what)
  return call('HGET', base .. ':o', what) or '0'
end

-- `all` and `of_key` are what is reserved with it.
local function set_aside(base, id, key, amount, all, of_key)
  local o = base .. ':o'
  call('HSET', base .. ':r', id, key .. ' ' .. amount)
  call('HSET', o, key, of_key, '*', all)
  call('EXPIRE', base .. ':r', KEEP_PROJECT)
  call('EXPIRE', o, KEEP_PROJECT)
end

local function key_and_amount(entry)
  local space = string.find(entry, ' ', 1, true)
  return sub(entry, 1, space - 1), sub(entry, space + 1)
end

-- Gives a reservation back. Returns whether there was one.
local function give_back(base, id)
  local entry = call('HGET', base .. ':r', id)
  if not entry then return false end
  local o = base .. ':o'
  local key, amount = key_and_amount(entry)
  call('HDEL', base .. ':r', id)
  local held = call('HMGET', o, '*', key)
  local all, left = difference(held[1], amount), difference(held[2], amount)
  if left == '0' then
    call('HSET', o, '*', all)
    call('HDEL', o, key)
  else
    call('HSET', o, '*', all, key, left)
  end
  return true
end

local function recount_reserved(base)
  local sums = {}
  local entries = call('HVALS', base .. ':r')
  for _, entry in ipairs(entries) do
    local key, amount = key_and_amount(entry)
    sums[key] = sum(sums[key], amount)
    sums['*'] = sum(sums['*'], amount)
  end
  call('DEL', base .. ':o')
  for what, amount in pairs(sums) do call('HSET', base .. ':o', what, amount) end
  if #entries > 0 then call('EXPIRE', base .. ':o', KEEP_PROJECT) end
end

local function is_of_node(id, node)
  return sub(id, 1, #node + 1) == node .. '.'
end

-- ---- Decisions ----

-- Whether all that bounds a call is known. A sum that no longer bounds any is forgotten: it is not counted, and has to
-- be read from the ledger when it does again.
local function is_known(base, key, epoch, cap, budget, key_epoch)
  local known = call('HMGET', base .. ':s', 'e', 'o', 'me')
  if budget == '' and known[3] then call('HDEL', base .. ':s', 'me') end
  if cap == '' and key_epoch then call('HDEL', base .. ':k:' .. key, 'e') end
  if cap == '' and budget == '' then return true end
  if known[1] ~= epoch or known[2] ~= '1' then return false end
  if budget ~= '' and known[3] ~= epoch then return false end
  return cap == '' or key_epoch == epoch
end

-- now, epoch, key, reset, loop limit, loop window, request limit, cap, budget, whether it spends, whether it counts in
-- the hour if it is admitted
-- -> code, requests in the hour, microseconds until there may be one more than now
local function gate(keys, args)
  local base, now = keys[1], clock(args[1])
  local epoch, key, reset = args[2], args[3], args[4]
  local loop_limit, window, limit = tonumber(args[5]), tonumber(args[6]), tonumber(args[7])
  local cap, budget, spends = args[8], args[9], args[10] == '1'
  local k = base .. ':k:' .. key
  local stored = call('HMGET', k, 'reset', 'an', 'qn', 'e', 'x')
  if not is_known(base, key, epoch, cap, budget, stored[4]) and spends then return { LOST, 0, 0 } end
  local attempts = tonumber(stored[2] or 0)
  if reset ~= '' and check_reset(base, key, stored[1], reset) ~= stored[1] then attempts = 0 end
  local code, count, wait = OK, tonumber(stored[3] or 0), 0
  local oldest, newest
  if loop_limit then
    local list = base .. ':a:' .. key
    attempts, oldest, newest = requests(list, attempts, now, window)
    -- One entry above the limit is enough to detect a loop.
    if attempts <= loop_limit then
      note_request(list, now, window, loop_limit, newest)
      attempts = attempts + 1
    end
    if attempts > loop_limit then code = LOOP end
  end
  if limit then
    local list, hour = base .. ':q:' .. key, HOUR * SECOND
    count, oldest, newest = requests(list, count, now, hour)
    local counts = args[11] == '1' and code == OK
    if count >= limit then
      wait = until_room(list, count, now, hour, limit)
      if counts then code = RATE end
    else
      if counts then
        local at = note_request(list, now, hour, limit, newest)
        count, oldest = count + 1, oldest or at
      end
      if oldest then wait = math.max(oldest + hour - now, 0) end
    end
  end
  call('HSET', k, 'an', attempts, 'qn', count)
  if interval_of(tonumber(stored[5] or 0)) ~= interval_of(now) then
    call('HSET', k, 'x', format('%.0f', now))
    call('EXPIRE', k, KEEP_KEY)
    call('EXPIRE', base .. ':s', KEEP_PROJECT)
  end
  if spends and code == OK and (cap ~= '' or budget ~= '') then
    if budget ~= '' and not is_more(budget, month_spent(base, month_of(now))) then
      code = BUDGET
    elseif cap ~= '' and not is_more(cap, hour_spent(base, key, now)) then
      code = CAP
    end
  end
  return { code, count, wait }
end

-- What is spent and reserved of a month and an hour.
local function figures(base, key, now, cap, budget)
  local month, hour = '0', '0'
  if budget ~= '' then month = month_spent(base, month_of(now)) end
  if cap ~= '' then hour = hour_spent(base, key, now) end
  local held = call('HMGET', base .. ':o', '*', key)
  return month, held[1] or '0', hour, held[2] or '0'
end

local function does_fit(amount, bound, spent, held)
  return bound == '' or amount == '0' or not is_more(sum(sum(spent, held), amount), bound)
end

local function is_late(now, not_after)
  return not_after ~= '' and now > tonumber(not_after)
end

-- now, epoch, key, reset, id, amount, cap, budget, not after
-- -> code, and spent and reserved of the month and of the hour, the own reservation included
local function reserve(keys, args)
  local base, now = keys[1], clock(args[1])
  local epoch, key, reset, id, amount = args[2], args[3], args[4], args[5], args[6]
  local cap, budget = args[7], args[8]
  if is_late(now, args[9]) then return { LATE } end
  local stored = call('HMGET', base .. ':k:' .. key, 'reset', 'e')
  if not is_known(base, key, epoch, cap, budget, stored[2]) then return { LOST } end
  check_reset(base, key, stored[1], reset)
  give_back(base, id)
  local month, of_month, hour, of_hour = figures(base, key, now, cap, budget)
  local code = FULL
  if does_fit(amount, budget, month, of_month) and does_fit(amount, cap, hour, of_hour) then
    of_month, of_hour, code = sum(of_month, amount), sum(of_hour, amount), OK
    set_aside(base, id, key, amount, of_month, of_hour)
  end
  return { code, month, of_month, hour, of_hour }
end

-- now, epoch, key, reset, cost, second of the ledger, microseconds since then, cap, budget, not after, whether it is
-- the first of its call, ids...
-- -> code, spent in the month, spent in the hour, the generation in which it counts
local function settle(keys, args)
  local base, now = keys[1], clock(args[1])
  local epoch, key, reset, cost, second = args[2], args[3], args[4], args[5], args[6]
  local cap, budget = args[8], args[9]
  if is_late(now, args[10]) then return { LATE } end
  local stored = call('HMGET', base .. ':k:' .. key, 'reset', 'e')
  if not is_known(base, key, epoch, cap, budget, stored[2]) then return { LOST } end
  check_reset(base, key, stored[1], reset)
  -- A call that has no reservation any more was settled before; or others have given it back, which makes no difference
  -- to the first.
  local counts = args[11] == '1'
  for place = 12, #args do
    if give_back(base, args[place]) then counts = true end
  end
  if counts and cost ~= '0' then
    local ended = now - tonumber(args[7])
    if budget ~= '' then month_add(base, month_of(ended), cost) end
    if cap ~= '' then hour_add(base, key, second, floor(ended / SECOND), cost) end
  end
  local month, _, hour = figures(base, key, now, cap, budget)
  return { OK, month, hour, call('HGET', base .. ':s', 'g') or '0' }
end

-- now, ids... -> the number of reservations that were given back
local function release(keys, args)
  local count = 0
  for place = 2, #args do
    if give_back(keys[1], args[place]) then count = count + 1 end
  end
  return count
end

-- ---- What is read from the ledger ----

-- The number of an epoch under which a project was built, if another of the same server is not as new.
local function newer_number(built, epoch)
  if not built then return nil end
  local run, number = string.match(built, '^(.*):(%d+)$')
  local other_run, other = string.match(epoch, '^(.*):(%d+)$')
  if run and run == other_run and tonumber(number) > tonumber(other) then return number end
  return nil
end

-- now, epoch, node, not after, (id, key, amount, generation)... : all reservations of a node. With a generation it is
-- the cost of a call that was settled in that one and that the ledger may not have; with a plus, that of one that the
-- ledger has, which is built from it: it stays if it is there, and is not added again. The first that comes after a
-- loss closes the project until it is opened, and forgets all reservations: every node that lives adds its own before
-- that.
-- -> 1, the generation, and the ids that the ledger stands for; 0 and the number of the newer epoch of the project;
-- LATE
local function join(keys, args)
  local base, epoch, node = keys[1], args[2], args[3]
  if is_late(clock(args[1]), args[4]) then return { LATE } end
  local s, r = base .. ':s', base .. ':r'
  local known = call('HMGET', s, 'e', 'g')
  local generation = known[2]
  if known[1] ~= epoch or not generation then
    local newer = newer_number(known[1], epoch)
    if newer then return { 0, newer } end
    -- Of the server's own time, even in a test: it must be another one than before.
    generation = format('%.0f', math.max(clock(''), tonumber(generation or 0) + 1))
    call('HSET', s, 'e', epoch, 'o', '0', 'g', generation)
    call('HDEL', s, 'me')
    call('DEL', r, base .. ':o')
  end
  call('EXPIRE', s, KEEP_PROJECT)
  local were = {}
  for _, id in ipairs(call('HKEYS', r)) do
    if is_of_node(id, node) then
      were[id] = true
      call('HDEL', r, id)
    end
  end
  local answer = { 1, generation }
  for place = 5, #args, 4 do
    local id, of = args[place], args[place + 3]
    if of == '+' and not were[id] then
      answer[#answer + 1] = id
    elseif of ~= generation then
      call('HSET', r, id, args[place + 1] .. ' ' .. args[place + 2])
    end
  end
  if #args > 4 then call('EXPIRE', r, KEEP_PROJECT) end
  recount_reserved(base)
  return answer
end

local function is_of_generation(base, generation)
  return generation == '' or call('HGET', base .. ':s', 'g') == generation
end

-- now, generation, month, amount : the spend of a month is at least this. 0 if a generation is named, and it is
-- another one by now.
local function raise_month(keys, args)
  if not is_of_generation(keys[1], args[2]) then return 0 end
  month_raise(keys[1], args[3], args[4])
  return 1
end

-- now, generation, key, reset, (second, amount)... : the spend of these seconds is at least this. 0 like there.
local function raise_hour(keys, args)
  local base, now, key, reset = keys[1], clock(args[1]), args[3], args[4]
  if not is_of_generation(base, args[2]) then return 0 end
  local stored = check_reset(base, key, call('HGET', base .. ':k:' .. key, 'reset'), reset)
  -- What a node has read before it knew of a reset may hold what was spent before.
  local since = -1
  if stored then
    since = floor(tonumber(stored) / SECOND)
    if stored ~= reset then since = since + 1 end
  end
  local this = floor(now / SECOND)
  local h = base .. ':h:' .. key
  hour_spent(base, key, now)
  for place = 5, #args, 2 do
    local second, least = tonumber(args[place]), args[place + 1]
    if second >= since and second >= this - HOUR and second <= this + HOUR then
      local known = call('HGET', h, args[place]) or '0'
      if is_more(least, known) then
        hour_add(base, key, args[place], math.min(second, this), difference(least, known))
      end
    end
  end
  return 1
end

-- now, epoch, generation, whether the month is known, keys whose hour is known... : lets calls spend. 1 if it was
-- done; 2 if they could spend before, so that what was raised is not all; 0 if what was built is lost again.
local function open(keys, args)
  local base, epoch = keys[1], args[2]
  local known = call('HMGET', base .. ':s', 'e', 'g', 'o')
  if known[1] ~= epoch or known[2] ~= args[3] then return 0 end
  call('HSET', base .. ':s', 'o', '1')
  if args[4] == '1' then call('HSET', base .. ':s', 'me', epoch) end
  for place = 5, #args do
    local k = base .. ':k:' .. args[place]
    call('HSET', k, 'e', epoch)
    call('EXPIRE', k, KEEP_KEY)
  end
  return known[3] == '1' and 2 or 1
end

-- now -> the nodes that have reservations
local function owners(keys)
  local found, seen = {}, {}
  for _, id in ipairs(call('HKEYS', keys[1] .. ':r')) do
    local node = sub(id, 1, string.find(id, '.', 1, true) - 1)
    if not seen[node] then
      seen[node] = true
      found[#found + 1] = node
    end
  end
  return found
end

-- now, node : gives back all reservations of a node that is gone. -> how many
local function forget(keys, args)
  local count = 0
  for _, id in ipairs(call('HKEYS', keys[1] .. ':r')) do
    if is_of_node(id, args[2]) then
      give_back(keys[1], id)
      count = count + 1
    end
  end
  return count
end

-- now, keys... -> spent and reserved of the month, and for each key spent and reserved of the hour and its requests
local function look(keys, args)
  local base, now = keys[1], clock(args[1])
  local found = { month_spent(base, month_of(now)), reserved(base, '*') }
  for place = 2, #args do
    local key = args[place]
    found[#found + 1] = hour_spent(base, key, now)
    found[#found + 1] = reserved(base, key)
    local k = base .. ':k:' .. key
    local known = call('HGET', k, 'qn')
    local count = format('%d', (requests(base .. ':q:' .. key, tonumber(known or 0), now, HOUR * SECOND)))
    -- What has left the list must not be counted in the next request's place.
    if known and count ~= known then call('HSET', k, 'qn', count) end
    found[#found + 1] = count
  end
  return found
end

-- ---- The nodes of a server ----

-- KEYS[1] is a key of this server: a hash with e (its epoch) and n (a number that is new after each loss), and
-- beside it the set of nodes that have added their reservations since.

-- now, run id, number -> that number, and the time. The number that a node has met before is not used again.
local function beat(keys, args)
  local now, epoch, least = clock(args[1]), args[2], tonumber(args[3])
  local known = call('HMGET', keys[1], 'e', 'n')
  local number = tonumber(known[2] or 0)
  if known[1] ~= epoch or number < least then
    -- Of the server's own time, even in a test: it must be another one than before.
    number = math.max(clock(''), number + 1, least + 1)
    call('HSET', keys[1], 'e', epoch, 'n', format('%.0f', number))
    call('DEL', keys[1] .. ':p')
  end
  return { format('%.0f', number), format('%.0f', now) }
end

-- now, number, node : the node has added its reservations. 0 if there was another loss.
local function pass(keys, args)
  if call('HGET', keys[1], 'n') ~= args[2] then return 0 end
  call('SADD', keys[1] .. ':p', args[3])
  return 1
end

-- now -> the nodes that have
local function passed(keys)
  return call('SMEMBERS', keys[1] .. ':p')
end

local function register(name, callback, flags)
  redis.register_function { function_name = '@LIBRARY@_' .. name, callback = callback, flags = flags }
end

register('gate', gate, {})
register('reserve', reserve, {})
-- These free memory, or must not fail for the lack of it: money is spent already, and what is lost has to come back.
register('settle', settle, { 'allow-oom' })
register('release', release, { 'allow-oom' })
register('forget', forget, { 'allow-oom' })
register('join', join, { 'allow-oom' })
register('raise_month', raise_month, { 'allow-oom' })
register('raise_hour', raise_hour, { 'allow-oom' })
register('open', open, { 'allow-oom' })
register('owners', owners, { 'no-writes' })
register('look', look, { 'allow-oom' })
register('beat', beat, { 'allow-oom' })
register('pass', pass, { 'allow-oom' })
register('passed', passed, { 'no-writes' })
