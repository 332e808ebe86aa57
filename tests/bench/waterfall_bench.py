"""P7: timelines: a page at either end and in the middle, a push to few and to many, and what a million timelines cost."""

import json
import time
import urllib.request

import ours
import peers
import redis_server
import turns
from peers import Contender
from recommend_bench import status

CHANNEL = "discover"
ITEMS = 2_000
READERS, LONG = 1_000, 60  # timelines of the page rows, and the items of each
GROWN = 10  # items of a timeline where there are many
PUSHED_TO = ((1, 32), (100, 8), (10_000, 2))  # readers of a push, connections
PUSH_READERS = 10_000
FIRST_SCORE = 1_750_000_000_000_000
TTL_S = 30 * 86400
LOADED_AT_ONCE = 2_000
MINIMUM_S = 5  # of the turns that push to many: some tens of requests

# Timelines as timeline_push.lua leaves them. ARGV 1 first reader  2 last reader  3 items of each  4 items in all  5 first score  6 TTL s  7 1: with the mark
LOAD = """
for reader = ARGV[1], ARGV[2] do
  local key, members = 'wf:discover:{u' .. reader .. '}', {}
  for i = 1, ARGV[3] do
    members[2 * i - 1], members[2 * i] = string.format('%.0f', ARGV[5] + i), 'i' .. (reader * 7 + i * 13) % ARGV[4]
  end
  if ARGV[7] == '1' then
    members[#members + 1] = string.format('%.0f', -ARGV[5] - ARGV[3])
    members[#members + 1] = ':'
  end
  redis.call('ZADD', key, unpack(members))
  redis.call('EXPIRE', key, ARGV[6])
end
"""
PUSHED_IN_ALL = "local n = 0 for reader = 0, ARGV[1] - 1 do n = n + redis.call('ZCOUNT', 'wf:discover:{u' .. reader .. '}', '(0', '+inf') end return n"


def put_items(client):
    now, commands = int(time.time()), []
    for number in range(ITEMS):
        commands.append(("HSET", f"item:{{i{number}}}", "title", f"Article {number} about topic {number % 977}", "url", f"https://example.org/{number}",
                         "author", f"author{number % 500}", "tags", f"topic{number % 100} t{number % 37}", "published_at", now - number * 60,
                         "update_time", now - number * 60))
    redis_server.run_all(client, commands)


def load_timelines(client, count, items, ours_too):
    """`count` timelines and the items they name, in an empty store. The append-only file is off meanwhile."""
    redis_server.empty(client)
    client.config_set("appendonly", "no")
    put_items(client)
    for first in range(0, count, LOADED_AT_ONCE):
        last = min(first + LOADED_AT_ONCE, count) - 1
        client.eval(LOAD, 0, first, last, items, ITEMS, FIRST_SCORE, TTL_S, int(ours_too))
    client.config_set("appendonly", "yes")
    redis_server.compact(client)


def contenders(session, path, peer_path, script, internal=False):
    out = []
    if session.with_ours:
        if "freshet-waterfall" not in session.running:
            session.running["freshet-waterfall"] = ours.Ours(session.directory, "freshet-waterfall")
        out.append(Contender("freshet", session.running["freshet-waterfall"], path, script, internal=internal))
    if "php-waterfall" not in session.running:
        session.running["php-waterfall"] = peers.php_fpm(session.directory, name="php-waterfall")
    return out + [Contender("PHP-FPM", session.running["php-waterfall"], peer_path, script)]


def asked(contender, direction, cursor, limit):
    url = f"{contender.url}?customerId=u7&direction={direction}&score={cursor}&limit={limit}"
    with urllib.request.urlopen(url, timeout=5) as reply:
        page = json.load(reply)
    return [(item["id"], item["score"], item["title"]) for item in page["items"]], page["drop"], page["up"], page["has_more"]


def round_trips(contender):
    """A page's, one connection, one after the other."""
    pages = 200
    before = status(contender.deployment)["redis round trips"]
    for _ in range(pages):
        asked(contender, "first", 0, 5)
    return (status(contender.deployment)["redis round trips"] - before) / pages


def pages(session, section):
    """First, older from the middle on, newer from the middle on."""
    made = contenders(session, f"/api/waterfall/{CHANNEL}", "/waterfall_page", "waterfall.lua")
    for contender in made:
        load_timelines(contender.deployment.redis_client(), READERS, LONG, contender.name == "freshet")
    sections = []
    for limit in (5, 20):
        for direction in ("first", "up", "down"):
            cursor = 0 if direction == "first" else FIRST_SCORE + LONG // 2
            title = f"P7 GET /api/waterfall, {direction}, {limit} items, 32 connections"
            made_section = section(f"waterfall-{direction}-{limit}", title,
                                   session.turns(made, 32, script_args=[direction, cursor, limit, READERS]))
            if len({str(asked(contender, direction, cursor, limit)) for contender in made}) != 1:
                made_section.problems.append("the contenders serve different pages")
            sections.append(made_section)
    if session.with_ours:
        sections[0].values.append(("freshet: round trips to Redis for a page", round_trips(made[0]), ""))
    return sections


def check_pushes(readers):
    """For take_turns: what was sent is in the timelines. Up to one request a connection was given up by wrk."""
    def check(contender, turn):
        client = contender.deployment.redis_client()
        redis_server.quiet(client)
        held = client.eval(PUSHED_IN_ALL, 0, PUSH_READERS)
        least, most = turn.requests * readers, (turn.requests + turn.progress["opened"]) * readers
        if not least <= held <= most:
            turn.problems.append(f"timelines hold {held} items, sent {least} to {most}")
    return check


def pushes(session, section):
    sections = []
    for readers, connections in PUSHED_TO:
        made = contenders(session, f"/api/waterfall/{CHANNEL}", "/waterfall_push", "waterfall_push.lua", internal=True)
        seconds = session.seconds if readers == 1 else max(session.seconds, MINIMUM_S)
        rows = turns.take_turns(made, connections, seconds, session.rounds, script_args=[readers, PUSH_READERS],
                                before=turns.start_empty, after=check_pushes(readers))
        title = f"P7 POST /api/waterfall to {readers:,} readers, {connections} connections"
        made_section = section(f"waterfall-push-{readers}", title, rows)
        if readers > 1:
            made_section.values += [(f"{row.contender}: CPU for a reader", row.median(lambda turn: turn.cpu_total_us) / readers, "µs") for row in rows]
        sections.append(made_section)
    return sections


def growth(session, section):
    """Ours alone: the same page and the same push among few timelines and among many."""
    if not session.with_ours:
        return []
    many = session.growth_timelines
    bases, values = {}, []
    for label, count in (("many", many), ("few", READERS)):
        name = f"freshet-waterfall-{label}"
        session.running[name] = session.running.get(name) or ours.Ours(session.directory, name)
        client = session.running[name].redis_client()
        redis_server.empty(client)
        before = client.info("memory")["used_memory"]
        load_timelines(client, count, GROWN, True)
        bases[label] = (session.running[name], count)
        if label == "many":
            values = [(f"Redis' memory for a timeline of {GROWN} items, among {count:,}", (client.info("memory")["used_memory"] - before) / count, "bytes"),
                      ("of that the key's own, by MEMORY USAGE", client.memory_usage(f"wf:{CHANNEL}:{{u{count - 1}}}", samples=0), "bytes")]

    def take(kind, path, script, arguments, **options):
        made = [Contender(f"freshet {kind}, {count:,} timelines", deployment, path, script, **options) for deployment, count in bases.values()]
        by_name = {f"freshet {kind}, {count:,} timelines": count for _, count in bases.values()}
        return session.turns(made, 32, script_args=lambda contender: [*arguments, by_name[contender.name]])

    path = f"/api/waterfall/{CHANNEL}"
    page = section("waterfall-growth", "P7 GET /api/waterfall, first 5, as there are more timelines", take("page", path, "waterfall.lua", ["first", 0, 5]))
    page.values = values
    return [page, section("waterfall-push-growth", "P7 POST /api/waterfall to one reader, as there are more timelines",
                          take("push", path, "waterfall_push.lua", [1], internal=True))]


def waterfall(session, section):
    return pages(session, section) + pushes(session, section) + growth(session, section)
