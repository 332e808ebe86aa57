"""P4 and P5: pages of the feed, over many items and readers, against the same in PHP-FPM."""

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
TAGS = 200
IMPORT_LIMIT_S = 600
SPAN_S = 90 * 86400  # the items' ages

# ARGV 1 first reader  2 last reader  3 fresh items  4 items of a buffer
FILL = """
for reader = ARGV[1], ARGV[2] do
  local cache, state, ids = 'feed:cache:{u' .. reader .. '}', 'feed:state:{u' .. reader .. '}', {}
  for i = 1, ARGV[4] do ids[i] = 'i' .. (reader * 7 + i * 13) % ARGV[3] end
  redis.call('DEL', cache, state)
  redis.call('RPUSH', cache, unpack(ids))
  redis.call('HSET', state, 'head', '1 0 0 ' .. ARGV[4] .. ' 0 0 ')  -- core/feed/parts/feed_state.lua
  redis.call('EXPIRE', cache, 1800)
  redis.call('EXPIRE', state, 1800)
end
"""
BUFFERED_IN_ALL = "local n = 0 for reader = 0, ARGV[1] - 1 do n = n + redis.call('LLEN', 'feed:cache:{u' .. reader .. '}') end return n"


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


def fill_buffers(client):
    for first in range(0, READERS, 1000):
        client.eval(FILL, 0, first, first + 999, FRESH, BUFFERED)


def prepare(session):
    """Deployments of their own: other benchmarks empty theirs."""
    contenders = []
    if session.with_ours:
        if "freshet-feed" not in session.running:
            session.running["freshet-feed"] = ours.Ours(session.directory, "freshet-feed")
            import_items(session.running["freshet-feed"], session.directory)
            fill_seen_days(session.running["freshet-feed"].redis_client())
        contenders.append(("freshet", session.running["freshet-feed"], "/api/feed", "/api/feed"))
    if "php-feed" not in session.running:
        session.running["php-feed"] = peers.php_fpm(session.directory, name="php-feed")
        put_items(session.running["php-feed"].redis_client())
    contenders.append(("PHP-FPM", session.running["php-feed"], "/feed_more", "/feed_refresh"))
    return contenders


def load_more(contenders, turns_of):
    made = [Contender(f"{name} load_more", deployment, more, "feed.lua") for name, deployment, more, _ in contenders]

    def before(contender):
        forget_today(contender.deployment.redis_client())
        fill_buffers(contender.deployment.redis_client())
        redis_server.compact(contender.deployment.redis_client())

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


def feed(session, section):
    contenders = prepare(session)
    sections = [section("feed-more", "P4 POST /api/feed load_more, 32 connections", load_more(contenders, session.turns)),
                section("feed-refresh-2", "P5 POST /api/feed refresh of 500, 2 connections", refresh(contenders, session.turns, 2)),
                section("feed-refresh-32", "P5 POST /api/feed refresh of 500, 32 connections", refresh(contenders, session.turns, 32))]
    for action, at in (("load_more", 2), ("refresh", 3)):
        asked = [Contender(f"{each[0]} {action}", each[1], each[at]) for each in contenders]
        peers.check_titles(sections[0], asked, body={"action": action, "agent_id": "u1", "limit": LIMIT})
    return sections
