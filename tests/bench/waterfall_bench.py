"""P7 and P9: pages of timelines, pushes to few and to many readers, and both with a million timelines."""

import json
import time
import urllib.request

import freshet
import peers
import redis_server
import turns
from loading import status
from peers import Contender

CHANNEL = "discover"
ITEMS = 2_000
READERS, PAGE_TIMELINE_ITEMS = 1_000, 60  # for pages: timelines, and items in each
GROWTH_TIMELINE_ITEMS = 10
PUSHES = ((1, 32), (100, 8), (10_000, 2))  # (readers of a push, connections)
PUSH_READERS = 10_000
FIRST_SCORE = 1_750_000_000_000_000
TTL_S = 30 * 86400
LOAD_BATCH = 2_000
MIN_PUSH_TURN_S = 5  # for pushes to many readers: enough for tens of requests

# Creates timelines in the format of timeline_push.lua.
# ARGV 1 first reader  2 last reader  3 items per timeline  4 number of items  5 first score  6 TTL s  7 1: with the marker
LOAD = """
for reader = ARGV[1], ARGV[2] do
  local key, members = 'wf:discover:{u' .. reader .. '}', {}
  for i = 1, ARGV[3] do
    members[2 * i - 1], members[2 * i] = string.format('%.0f', ARGV[5] + i), 'i' .. (reader * 7 + i * 13) % ARGV[4]
  end
  if ARGV[7] == '1' then
    members[#members + 1] = string.format('%.0f', -ARGV[5] - ARGV[3])
    members[#members + 1] = string.char(30)
  end
  redis.call('ZADD', key, unpack(members))
  redis.call('EXPIRE', key, ARGV[6])
end
"""
TOTAL_PUSHED = "local n = 0 for reader = 0, ARGV[1] - 1 do n = n + redis.call('ZCOUNT', 'wf:discover:{u' .. reader .. '}', '(0', '+inf') end return n"


def put_items(client):
    now, commands = int(time.time()), []
    for number in range(ITEMS):
        commands.append(("HSET", f"item:{{i{number}}}", "title", f"Article {number} about topic {number % 977}", "url", f"https://example.org/{number}",
                         "author", f"author{number % 500}", "tags", f"topic{number % 100} t{number % 37}", "published_at", now - number * 60,
                         "update_time", now - number * 60))
    redis_server.run_all(client, commands)


def load_timelines(client, count, items, with_marker):
    """Replaces the contents of the store with `count` timelines and their items, with the append-only file off."""
    redis_server.flush(client)
    client.config_set("appendonly", "no")
    put_items(client)
    add_timelines(client, count, items, ITEMS, with_marker)
    client.config_set("appendonly", "yes")
    redis_server.rewrite_aof(client)


def add_timelines(client, count, length, items, with_marker):
    """Writes timelines of u0, u1 … with `length` of `items` items. with_marker: for Freshet."""
    for first in range(0, count, LOAD_BATCH):
        last = min(first + LOAD_BATCH, count) - 1
        client.eval(LOAD, 0, first, last, length, items, FIRST_SCORE, TTL_S, int(with_marker))


def make_contenders(session, path, peer_path, script, internal=False):
    out = []
    if session.with_freshet:
        if "freshet-waterfall" not in session.running:
            session.running["freshet-waterfall"] = freshet.Freshet(session.directory, "freshet-waterfall")
        out.append(Contender("Freshet", session.running["freshet-waterfall"], path, script, internal=internal))
    if "php-waterfall" not in session.running:
        session.running["php-waterfall"] = peers.php_fpm(session.directory, name="php-waterfall")
    return out + [Contender("PHP-FPM", session.running["php-waterfall"], peer_path, script)]


def fetch_page(contender, direction, cursor, limit):
    url = f"{contender.url}?customerId=u7&direction={direction}&score={cursor}&limit={limit}"
    with urllib.request.urlopen(url, timeout=5) as reply:
        page = json.load(reply)
    return [(item["id"], item["score"], item["title"]) for item in page["items"]], page["drop"], page["up"], page["has_more"]


def round_trips(contender):
    """Redis round trips per page, with requests sent one at a time."""
    requests = 200
    before = status(contender.deployment)["redis round trips"]
    for _ in range(requests):
        fetch_page(contender, "first", 0, 5)
    return (status(contender.deployment)["redis round trips"] - before) / requests


def pages(session, section):
    """The first page, and pages from the middle in both directions."""
    contenders = make_contenders(session, f"/api/waterfall/{CHANNEL}", "/waterfall_page", "waterfall.lua")
    for contender in contenders:
        load_timelines(contender.deployment.redis_client(), READERS, PAGE_TIMELINE_ITEMS, contender.name == "Freshet")
    sections = []
    for limit in (5, 20):
        for direction in ("first", "up", "down"):
            cursor = 0 if direction == "first" else FIRST_SCORE + PAGE_TIMELINE_ITEMS // 2
            title = f"P7 GET /api/waterfall, {direction}, {limit} items, 32 connections"
            sections.append(section(f"waterfall-{direction}-{limit}", title,
                                    session.turns(contenders, 32, script_args=[direction, cursor, limit, READERS])))
            if len({str(fetch_page(contender, direction, cursor, limit)) for contender in contenders}) != 1:
                sections[-1].problems.append("the contenders serve different pages")
    if session.with_freshet:
        sections[0].values.append(("Freshet: Redis round trips per page", round_trips(contenders[0]), ""))
    return sections


def check_pushes(readers):
    """For take_turns: checks that the timelines contain what was sent. wrk abandons up to one request per connection.
    """
    def check(contender, turn):
        client = contender.deployment.redis_client()
        redis_server.wait_until_idle(client)
        stored = client.eval(TOTAL_PUSHED, 0, PUSH_READERS)
        lowest, highest = turn.requests * readers, (turn.requests + turn.progress["opened"]) * readers
        if not lowest <= stored <= highest:
            turn.problems.append(f"timelines contain {stored} items instead of {lowest} to {highest}")
    return check


def pushes(session, section):
    sections = []
    for readers, connections in PUSHES:
        contenders = make_contenders(session, f"/api/waterfall/{CHANNEL}", "/waterfall_push", "waterfall_push.lua", internal=True)
        seconds = session.seconds if readers == 1 else max(session.seconds, MIN_PUSH_TURN_S)
        rows = turns.take_turns(contenders, connections, seconds, session.rounds, script_args=[readers, PUSH_READERS],
                                before=turns.start_empty, after=check_pushes(readers))
        title = f"P7 POST /api/waterfall to {readers:,} readers, {connections} connections"
        sections.append(section(f"waterfall-push-{readers}", title, rows))
        if readers > 1:
            sections[-1].values += [(f"{row.contender}: CPU per reader", row.median(lambda turn: turn.cpu_total_us) / readers, "µs") for row in rows]
    return sections


def growth(session, section):
    """Freshet only: the same page and the same push with few and with many timelines."""
    if not session.with_freshet:
        return []
    many = session.growth_timelines
    stores, values = {}, []
    for label, count in (("many", many), ("few", READERS)):
        name = f"freshet-waterfall-{label}"
        session.running[name] = session.running.get(name) or freshet.Freshet(session.directory, name)
        client = session.running[name].redis_client()
        redis_server.flush(client)
        before = client.info("memory")["used_memory"]
        load_timelines(client, count, GROWTH_TIMELINE_ITEMS, True)
        stores[label] = (session.running[name], count)
        if label == "many":
            values = [(f"Redis memory of a timeline of {GROWTH_TIMELINE_ITEMS} items, with {count:,} timelines", (client.info("memory")["used_memory"] - before) / count, "bytes"),
                      ("MEMORY USAGE of its key", client.memory_usage(f"wf:{CHANNEL}:{{u{count - 1}}}", samples=0), "bytes")]

    def take_turns(kind, path, script, arguments, **options):
        contenders = [Contender(f"Freshet {kind}, {count:,} timelines", deployment, path, script, **options) for deployment, count in stores.values()]
        readers = {f"Freshet {kind}, {count:,} timelines": count for _, count in stores.values()}
        return session.turns(contenders, 32, script_args=lambda contender: [*arguments, readers[contender.name]])

    path = f"/api/waterfall/{CHANNEL}"
    page = section("waterfall-growth", "P9 GET /api/waterfall, first 5, by number of timelines", take_turns("page", path, "waterfall.lua", ["first", 0, 5]))
    page.values = values
    return [page, section("waterfall-push-growth", "P9 POST /api/waterfall to one reader, by number of timelines",
                          take_turns("push", path, "waterfall_push.lua", [1], internal=True))]


def waterfall(session, section):
    return pages(session, section) + pushes(session, section) + growth(session, section)
