"""P4, P5 and P9: pages of the feed with many items and readers, compared with PHP-FPM and with few readers."""

import os
import time

import freshet
import loading
import peers
import redis_server
from peers import Contender

ITEMS, READERS, LIMIT = 100_000, 100_000, 20
FRESH = 2_000  # buffers contain items of the newest two days, as with recall's decay
SHARD_BYTES = 3 * 512  # core/feed/seen_layout.h
BUFFERED = 240  # items in each reader's buffer: twelve pages
BASELINE_READERS, REMAINING = 1_000, 24  # readers of the small store, and items left in each of its buffers
TAGS = 200
GROWTH_TTL_S = 7200
SPAN_S = 90 * 86400  # the items' maximum age

# ARGV 1 first reader  2 last reader  3 fresh items  4 items per buffer  5 TTL s
# 6 items per list element: 20 (a page) for Freshet, 1 for the peer
FILL = """
for reader = ARGV[1], ARGV[2] do
  local cache, state, ids = 'feed:cache:{u' .. reader .. '}', 'feed:state:{u' .. reader .. '}', {}
  for i = 1, ARGV[4] do
    local line, id = math.ceil(i / ARGV[6]), 'i' .. (reader * 7 + i * 13) % ARGV[3]
    ids[line] = ids[line] and ids[line] .. ' ' .. id or id
  end
  redis.call('DEL', cache, state)
  redis.call('RPUSH', cache, unpack(ids))
  redis.call('HSET', state, 'head', '1 0 0 ' .. ARGV[4] .. ' 0 0 ')  -- core/feed/parts/feed_state.lua
  redis.call('EXPIRE', cache, ARGV[5])
  redis.call('EXPIRE', state, ARGV[5])
end
"""
TOTAL_BUFFERED = """
local n = 0
for reader = 0, ARGV[1] - 1 do
  for _, line in ipairs(redis.call('LRANGE', 'feed:cache:{u' .. reader .. '}', 0, -1)) do n = n + 1 + select(2, line:gsub(' ', ' ')) end
end
return n
"""


def item(number, now):
    return {"id": f"i{number}", "title": f"Article {number} about topic {number % 977} and place {number % 331}", "url": f"https://example.org/{number}",
            "author": f"author{number % 500}", "tags": [f"t{number % TAGS}", f"t{number * 7 % TAGS}"],
            "published_at": now - number * SPAN_S // ITEMS}


def put_items(client):
    """Writes the same items as hashes for the peer, and their ids to a sorted set, its stand-in for a search engine."""
    now = int(time.time())
    for first in range(0, ITEMS, 1000):
        commands = []
        for number in range(first, first + 1000):
            each = item(number, now)
            commands.append(("HSET", f"item:{{{each['id']}}}", "title", each["title"], "url", each["url"], "author", each["author"],
                             "tags", " ".join(each["tags"]), "published_at", each["published_at"]))
            commands.append(("ZADD", "recall", each["published_at"], each["id"]))
        redis_server.run_all(client, commands)


def fill_seen_days(client):
    """Fills the seen filter's seven previous days to their capacity. The peer's stay empty, which favors the peer."""
    today = time.time() // 86400 * 86400
    name = time.strftime("%Y%m%d", time.gmtime(today))
    shards = int(client.get(f"bf:global:{name}:shards"))
    for days_ago in range(1, 8):
        day, expiry = time.strftime("%Y%m%d", time.gmtime(today - days_ago * 86400)), int(today) + (8 - days_ago) * 86400
        commands = [("SET", f"bf:global:{day}:shards", shards, "EXAT", expiry)]
        commands += [("SET", f"bf:global:{day}:{{{shard}}}", os.urandom(SHARD_BYTES), "EXAT", expiry) for shard in range(shards)]
        redis_server.run_all(client, commands)


def clear_seen_today(client):
    """Clears the items that earlier turns marked as seen, so that their readers get the same items again."""
    today = time.strftime("%Y%m%d", time.gmtime())
    keys = client.keys(f"bf:global:{today}:{{*}}") + client.keys(f"seen:*:{today}")
    for first in range(0, len(keys), 1000):
        client.unlink(*keys[first:first + 1000])


def fill_buffers(client, readers=READERS, items=BUFFERED, ttl_s=1800, per_element=LIMIT):
    for first in range(0, readers, 1000):
        client.eval(FILL, 0, first, min(first + 1000, readers) - 1, FRESH, items, ttl_s, per_element)


def filled_deployment(session, name):
    if name not in session.running:
        session.running[name] = freshet.Freshet(session.directory, name)
        now = int(time.time())
        loading.import_items(session.running[name], os.path.join(session.directory, "feed-items.ndjson"), (item(number, now) for number in range(ITEMS)))
        fill_seen_days(session.running[name].redis_client())
    return session.running[name]


def prepare(session):
    """Starts separate deployments, since other benchmarks empty theirs. Returns (name, deployment, load_more path,
    refresh path).
    """
    contenders = []
    if session.with_freshet:
        contenders.append(("Freshet", filled_deployment(session, "freshet-feed"), "/api/feed", "/api/feed"))
    if "php-feed" not in session.running:
        session.running["php-feed"] = peers.php_fpm(session.directory, name="php-feed")
        put_items(session.running["php-feed"].redis_client())
    contenders.append(("PHP-FPM", session.running["php-feed"], "/feed_more", "/feed_refresh"))
    return contenders


def load_more(contenders, turns_of):
    measured = [Contender(f"{name} load_more", deployment, path, "feed.lua") for name, deployment, path, _ in contenders]

    def before(contender):
        clear_seen_today(contender.deployment.redis_client())
        client = contender.deployment.redis_client()
        fill_buffers(client, per_element=LIMIT if contender.path == "/api/feed" else 1)
        redis_server.rewrite_aof(client)

    def after(contender, turn):
        remaining = contender.deployment.redis_client().eval(TOTAL_BUFFERED, 0, READERS)
        delivered = READERS * BUFFERED - remaining
        # False positives of the filter, up to one in a hundred, are replaced by further items.
        lowest, highest = turn.requests * LIMIT, (turn.requests + turn.progress["opened"]) * LIMIT * 1.01
        if not lowest <= delivered <= highest:
            turn.problems.append(f"delivered {delivered} items instead of {lowest} to {highest}")
    return turns_of(measured, 32, script_args=["load_more", LIMIT, READERS], before=before, after=after)


def refresh(contenders, turns_of, connections):
    measured = [Contender(f"{name} refresh", deployment, path, "feed.lua") for name, deployment, _, path in contenders]
    return turns_of(measured, connections, script_args=["refresh", LIMIT, READERS],
                    before=lambda contender: clear_seen_today(contender.deployment.redis_client()))


def growth(session, section):
    """Freshet only: refreshes with few and with many readers, whose buffers all hold items left over from earlier."""
    if not session.with_freshet:
        return []
    contenders, readers = [], {}
    for label, count in (("many", session.growth_readers), ("few", BASELINE_READERS)):
        contenders.append(Contender(f"Freshet refresh, {count:,} readers", filled_deployment(session, f"freshet-feed-{label}"), "/api/feed", "feed.lua"))
        readers[contenders[-1].name] = count
        client = contenders[-1].deployment.redis_client()
        client.config_set("appendonly", "no")
        fill_buffers(client, count, REMAINING, GROWTH_TTL_S)
        client.config_set("appendonly", "yes")
        redis_server.rewrite_aof(client)

    def before(contender):
        client = contender.deployment.redis_client()
        clear_seen_today(client)
        fill_buffers(client, BASELINE_READERS, REMAINING, GROWTH_TTL_S)  # earlier turns have refreshed these repeatedly
    rows = session.turns(contenders, 2, script_args=lambda contender: ["refresh", LIMIT, readers[contender.name]], before=before)
    return [section("feed-growth", "P9 POST /api/feed refresh of 500 by number of readers, 2 connections", rows)]


def feed(session, section):
    contenders = prepare(session)
    sections = [section("feed-more", "P4 POST /api/feed load_more, 32 connections", load_more(contenders, session.turns)),
                section("feed-refresh-2", "P5 POST /api/feed refresh of 500, 2 connections", refresh(contenders, session.turns, 2)),
                section("feed-refresh-32", "P5 POST /api/feed refresh of 500, 32 connections", refresh(contenders, session.turns, 32))]
    for action, path_index in (("load_more", 2), ("refresh", 3)):
        checked = [Contender(f"{each[0]} {action}", each[1], each[path_index]) for each in contenders]
        peers.check_titles(sections[0], checked, body={"action": action, "agent_id": "u1", "limit": LIMIT})
    return sections
