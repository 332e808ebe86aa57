"""P4, P5 and P9: pages of the feed, over many items and readers, against the same in PHP-FPM, and among few readers."""

import json
import os
import subprocess
import time
import urllib.request

import ours
import peers
import redis_server
from peers import Contender
from procs import BenchError, wait_until

ITEMS, READERS, LIMIT = 100_000, 100_000, 20
FRESH = 2_000  # buffers hold items of the newest two days, as recall's decay makes them
SHARD_BYTES = 3 * 512  # core/feed/seen_layout.h
BUFFERED = 240  # items of each reader's buffer: twelve pages
FEW, LEFT = 1_000, 24  # readers that many are compared with, and what is left in the buffer of each
TAGS = 200
GROWTH_TTL_S = 7200
IMPORT_LIMIT_S = 600
SPAN_S = 90 * 86400  # the items' ages

# ARGV 1 first reader  2 last reader  3 fresh items  4 items of a buffer  5 TTL s  6 items of an element: ours are lines of a page's
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
BUFFERED_IN_ALL = """
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


def import_items(deployment, directory):
    """Through the front door, and waits until the recorder has them in the index."""
    path, now = os.path.join(directory, "feed-items.ndjson"), int(time.time())
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(item(number, now)) + "\n" for number in range(ITEMS))
    done = subprocess.run([os.path.join(peers.ROOT, "scripts", "freshetctl"), "import", "-q", path, "--base", deployment.internal_url],
                          capture_output=True, text=True, timeout=IMPORT_LIMIT_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"import: {done.stdout}{done.stderr}")

    def recorded():
        with urllib.request.urlopen(f"{deployment.internal_url}/status?json", timeout=5) as reply:
            return json.load(reply)["recorder items"] >= ITEMS
    wait_until(recorded, "the recorder", IMPORT_LIMIT_S)


def put_items(client):
    """The same items as hashes, for the peer, and the newest in a sorted set, its stand-in for a search engine."""
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
    """The seven days before today as full as they were made for. The peer's are left empty, which is in its favour."""
    today = time.time() // 86400 * 86400
    name = time.strftime("%Y%m%d", time.gmtime(today))
    shards = int(client.get(f"bf:global:{name}:shards"))
    for back in range(1, 8):
        day, ends = time.strftime("%Y%m%d", time.gmtime(today - back * 86400)), int(today) + (8 - back) * 86400
        commands = [("SET", f"bf:global:{day}:shards", shards, "EXAT", ends)]
        commands += [("SET", f"bf:global:{day}:{{{shard}}}", os.urandom(SHARD_BYTES), "EXAT", ends) for shard in range(shards)]
        redis_server.run_all(client, commands)


def forget_today(client):
    """What earlier turns have shown: their readers get the same items again."""
    today = time.strftime("%Y%m%d", time.gmtime())
    keys = client.keys(f"bf:global:{today}:{{*}}") + client.keys(f"seen:*:{today}")
    for first in range(0, len(keys), 1000):
        client.unlink(*keys[first:first + 1000])


def fill_buffers(client, readers=READERS, items=BUFFERED, ttl_s=1800, of_element=LIMIT):
    for first in range(0, readers, 1000):
        client.eval(FILL, 0, first, min(first + 1000, readers) - 1, FRESH, items, ttl_s, of_element)


def full_site(session, name):
    if name not in session.running:
        session.running[name] = ours.Ours(session.directory, name)
        import_items(session.running[name], session.directory)
        fill_seen_days(session.running[name].redis_client())
    return session.running[name]


def prepare(session):
    """Deployments of their own: other benchmarks empty theirs."""
    contenders = []
    if session.with_ours:
        contenders.append(("freshet", full_site(session, "freshet-feed"), "/api/feed", "/api/feed"))
    if "php-feed" not in session.running:
        session.running["php-feed"] = peers.php_fpm(session.directory, name="php-feed")
        put_items(session.running["php-feed"].redis_client())
    contenders.append(("PHP-FPM", session.running["php-feed"], "/feed_more", "/feed_refresh"))
    return contenders


def load_more(contenders, turns_of):
    made = [Contender(f"{name} load_more", deployment, more, "feed.lua") for name, deployment, more, _ in contenders]

    def before(contender):
        forget_today(contender.deployment.redis_client())
        client = contender.deployment.redis_client()
        fill_buffers(client, of_element=LIMIT if contender.path == "/api/feed" else 1)
        redis_server.compact(client)

    def after(contender, turn):
        left = contender.deployment.redis_client().eval(BUFFERED_IN_ALL, 0, READERS)
        handed_out = READERS * BUFFERED - left
        # What the filter wrongly takes for seen is replaced: up to one in a hundred.
        least, most = turn.requests * LIMIT, (turn.requests + turn.progress["opened"]) * LIMIT * 1.01
        if not least <= handed_out <= most:
            turn.problems.append(f"handed out {handed_out} items, asked for {least} to {most}")
    return turns_of(made, 32, script_args=["load_more", LIMIT, READERS], before=before, after=after)


def refresh(contenders, turns_of, connections):
    made = [Contender(f"{name} refresh", deployment, path, "feed.lua") for name, deployment, _, path in contenders]
    return turns_of(made, connections, script_args=["refresh", LIMIT, READERS],
                    before=lambda contender: forget_today(contender.deployment.redis_client()))


def growth(session, section):
    """Ours alone: a refresh among few readers and among many, who all have something left in their buffers."""
    if not session.with_ours:
        return []
    made, readers = [], {}
    for label, count in (("many", session.growth_readers), ("few", FEW)):
        made.append(Contender(f"freshet refresh, {count:,} readers", full_site(session, f"freshet-feed-{label}"), "/api/feed", "feed.lua"))
        readers[made[-1].name] = count
        client = made[-1].deployment.redis_client()
        client.config_set("appendonly", "no")
        fill_buffers(client, count, LEFT, GROWTH_TTL_S)
        client.config_set("appendonly", "yes")
        redis_server.compact(client)

    def before(contender):
        client = contender.deployment.redis_client()
        forget_today(client)
        fill_buffers(client, FEW, LEFT, GROWTH_TTL_S)  # those whom an earlier turn asked again and again
    rows = session.turns(made, 2, script_args=lambda contender: ["refresh", LIMIT, readers[contender.name]], before=before)
    return [section("feed-growth", "P9 POST /api/feed refresh of 500 as there are more readers, 2 connections", rows)]


def feed(session, section):
    contenders = prepare(session)
    sections = [section("feed-more", "P4 POST /api/feed load_more, 32 connections", load_more(contenders, session.turns)),
                section("feed-refresh-2", "P5 POST /api/feed refresh of 500, 2 connections", refresh(contenders, session.turns, 2)),
                section("feed-refresh-32", "P5 POST /api/feed refresh of 500, 32 connections", refresh(contenders, session.turns, 32))]
    for action, at in (("load_more", 2), ("refresh", 3)):
        asked = [Contender(f"{each[0]} {action}", each[1], each[at]) for each in contenders]
        peers.check_titles(sections[0], asked, body={"action": action, "agent_id": "u1", "limit": LIMIT})
    return sections
