"""What a million of each thing takes of Redis, and a million requests of CPU. Called by scripts/scale."""

import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
import uuid
from dataclasses import dataclass

import procs
import redis_server
from ours import Ours
from procs import BenchError, wait_until
from recommend_bench import status

RAISED = {"zset-max-listpack-entries": 512, "hash-max-listpack-value": 512}
CONNECTIONS, AT_ONCE = 32, 20  # pipelined; nginx has one of each connection inside
MOST_OF_A_CONNECTION = 9_000  # nginx' keepalive_requests is 10,000
ITEMS_A_POST, LINES_A_POST, READERS_A_PUSH, ITEMS_A_PUSH = 1_000, 25_000, 200, 100
TOPICS, FULL, TITLE_WORDS = 10, 500, 9  # history.size, the cap of a timeline and of interactions.max_kept
EVENTS_OF_A_READER, EVENTS_OF_A_SESSION, ALONE = 100, 50, 8
LAG_LIMIT_S, QUIET_S, TINY_QUIET_S = 600, 1.2, 0.3  # what workers sum up has left by then: places 0.25 s, what was shown 1 s
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
KINDS = ("like", "favorite", "share", "reply", "post")
SHARED = ("hot:rank", "hot:placed", "hot:placed:views", "hot:score", "hot:published", "hot:newest", "tag:*")


@dataclass
class Memory:
    """What lies in Redis: bytes of one, by the growth of used_memory and by MEMORY USAGE of its keys."""
    what: str
    count: int
    used: float
    usage: float


@dataclass
class Cost:
    """What requests took: µs of CPU, bytes of the append-only file, of one."""
    what: str
    count: int
    cpu_us: dict
    aof: float


class Meter:
    def __init__(self, deployment, quiet_s):
        self.deployment, self.client, self.quiet_s = deployment, deployment.redis_client(), quiet_s
        self.memory, self.costs = [], []

    def settle(self):
        wait_until(lambda: status(self.deployment)["recorder lag entries"] == 0, "the recorder", LAG_LIMIT_S)
        time.sleep(self.quiet_s)
        redis_server.quiet(self.client)

    def held(self):
        """used_memory without buffers of clients and of the append-only file, and with 12 bytes of table a key: a table that grows by
        doubling has 8 to 16 bytes of pointers for each, whoever came last. Redis' own sum of clients' buffers is up to a second old."""
        stats, clients, info = self.client.pipeline().memory_stats().client_list().info("keyspace").execute()
        keys, stale = info.get("db0", {"keys": 0, "expires": 0}), stats["clients.normal"] - sum(int(each["tot-mem"]) for each in clients)
        tables = stats.get("db.0", {"overhead.hashtable.main": 0, "overhead.hashtable.expires": 0})
        entries, deadlines = tables["overhead.hashtable.main"], tables["overhead.hashtable.expires"]
        pointers = entries - 40 * keys["keys"] + deadlines - 24 * keys["expires"]  # less entries and their objects
        return stats["dataset.bytes"] + stale + entries + deadlines - pointers + 12 * (keys["keys"] + keys["expires"])

    def keys(self, patterns):
        return [key for pattern in patterns for key in self.client.scan_iter(pattern, count=5000)]

    def usage(self, keys):
        asked, sizes = keys[::max(1, len(keys) // 5000)], []
        for first in range(0, len(asked), 500):
            pipeline = self.client.pipeline(transaction=False)
            for key in asked[first:first + 500]:
                pipeline.execute_command("MEMORY", "USAGE", key, "SAMPLES", 0)
            sizes += [size or 0 for size in pipeline.execute()]
        return sum(sizes) * len(keys) / max(len(asked), 1)

    @contextlib.contextmanager
    def grows(self, what, count, patterns):
        """Notes what is more afterwards, in keys that others share, too."""
        def all_of_it():
            return self.held(), self.usage(self.keys(patterns)) + sum(self.usage([key]) for key in self.keys(SHARED))

        before = all_of_it()
        yield
        self.memory.append(Memory(what, count, *((now - then) / count for now, then in zip(all_of_it(), before))))

    def goes(self, what, count, patterns):
        """Deletes these keys and notes what that frees."""
        keys = self.keys(patterns)
        usage, before = self.usage(keys), self.held()
        for first in range(0, len(keys), 1000):
            self.client.delete(*keys[first:first + 1000])
        self.memory.append(Memory(what, count, (before - self.held()) / count, usage / count))

    @contextlib.contextmanager
    def costs_of(self, what, count):
        before = self._spent()
        yield
        self.settle()
        after = self._spent()
        spent = {name: (after[name] - before[name]) / count for name in before}
        aof = spent.pop("aof")
        self.costs.append(Cost(what, count, spent, aof))

    def _spent(self):
        recorder, groups = status(self.deployment)["recorder pid"], self.deployment.groups()
        spent = {"redis": groups["redis"], "worker": [pid for pid in groups["worker"] if pid != recorder], "nginx": groups["nginx"], "recorder": [recorder]}
        return {name: procs.cpu_us(pids) for name, pids in spent.items()} | {"aof": self.client.info("persistence")["aof_current_size"]}

    def send(self, requests, internal=False):
        send((self.deployment.host, self.deployment.internal_port if internal else self.deployment.port), requests)

    def post_lines(self, path, lines, a_post):
        """NDJSON through the internal server; every line has to be taken."""
        for first in range(0, len(lines), a_post):
            part = lines[first:first + a_post]
            request = urllib.request.Request(self.deployment.internal_url + path, "\n".join(part).encode(), {"Content-Type": "application/x-ndjson"})
            with urllib.request.urlopen(request, timeout=60) as reply:
                answer = json.load(reply)
            if answer["accepted"] != len(part):
                raise BenchError(f"{path}: {str(answer)[:300]}")


def post(path, **body):
    text = json.dumps(body, separators=(",", ":"))
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0\r\nContent-Type: application/json\r\n" \
           f"Content-Length: {len(text)}\r\n\r\n{text}".encode()


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0\r\n\r\n".encode()


def send(address, requests):
    """Over kept connections, some requests at once on each; every reply has to be a 200 that is not degraded."""
    a_turn = CONNECTIONS * AT_ONCE
    for begin in range(0, len(requests), CONNECTIONS * MOST_OF_A_CONNECTION):
        part = requests[begin:begin + CONNECTIONS * MOST_OF_A_CONNECTION]
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(min(CONNECTIONS, len(part)))]
            for first in range(0, len(part), a_turn):
                turn = [part[at:at + AT_ONCE] for at in range(first, min(first + a_turn, len(part)), AT_ONCE)]
                for connection, mine in zip(opened, turn):
                    connection.sendall(b"".join(mine))
                for connection, mine in zip(opened, turn):
                    take_replies(connection, len(mine))


def take_replies(connection, count):
    data, at = b"", 0
    while count:
        head = data.find(b"\r\n\r\n", at)
        length = LENGTH.search(data, at, head + 2) if head >= 0 else None
        if head >= 0 and not length:
            raise BenchError(f"a reply without a length: {data[at:head]!r}")
        if length and len(data) >= head + 4 + int(length[1]):
            end = head + 4 + int(length[1])
            if data[at + 9:at + 12] != b"200" or b'"degraded":true' in data[head:end]:
                raise BenchError(f"a reply of the service: {data[at:at + 400]!r}")
            at, count = end, count - 1
            continue
        more = connection.recv(1 << 18)
        if not more:
            raise BenchError("the service closed a connection")
        data, at = data[at:] + more, 0


def item(mark, number, now):
    words = " ".join(f"{'abcdefghij'[number * step % 10] * 3}{number * step % 977}" for step in range(1, TITLE_WORDS))
    return json.dumps({"id": f"{mark}i{number}", "title": f"Article {number} about {words}", "url": f"https://example.org/articles/{number}",
                       "author": f"author{number % 500}", "tags": [f"topic{number % 100}", f"t{number % 37}"], "published_at": now - 60 - number * 60})


def interacting_of(sizes):
    return max(sizes.readers // 4, min(sizes.readers, 20))


def fill_all(meter, sizes, mark):
    """Everything once, under names that begin with `mark`."""
    now, articles, readers = int(time.time()), sizes.articles, sizes.readers
    interacting = interacting_of(sizes)

    def mine(*patterns):
        return [f"{pattern}:{{{mark}*" for pattern in patterns]

    def put():
        lines = [item(mark, number, now) for number in range(articles)]
        with meter.costs_of("article put, 1,000 at once", articles):
            meter.post_lines("/api/items", lines, ITEMS_A_POST)

    def read():
        # Each visitor opens as many articles as each article has visitors.
        requests = [post("/api/track", articleId=f"{mark}i{article}", userId=f"{mark}v{(article + visit * 7919) % articles}", dwellMs=12_000 + visit)
                    for visit in range(sizes.visitors) for article in range(articles)]
        with meter.costs_of("report of reading, the session's first", len(requests)):
            meter.send(requests)

    def look():
        requests = [post("/api/history", userId=f"{mark}h{reader}", topicId=f"{mark}i{(reader + topic * 31) % articles}")
                    for topic in range(TOPICS) for reader in range(readers)]
        with meter.costs_of("view of a topic", len(requests)):
            meter.send(requests)

    def interact(name="r", each=FULL, events=False):
        lines = [json.dumps({"userId": f"{mark}{name}{reader}", "topicId": f"{mark}i{(reader + number) % articles}", "kind": KINDS[number % len(KINDS)],
                             "at": now - number * 600} | ({"eventId": str(uuid.uuid4())} if events else {}))
                 for number in range(each) for reader in range(interacting)]
        with meter.costs_of(f"interaction, 25,000 at once{', with an event id' if events else ''}", len(lines)):
            meter.post_lines("/api/interactions", lines, LINES_A_POST)

    def refresh():
        requests = [post("/api/feed", action="refresh", userId=f"{mark}r{reader}", limit=20) for reader in range(interacting)]
        with meter.costs_of(f"refresh of a feed among {articles:,} articles", len(requests)):
            meter.send(requests)

    def push(name, items, a_push=ITEMS_A_PUSH):
        groups = [[f"{mark}{name}{reader}" for reader in range(first, min(first + READERS_A_PUSH, readers))] for first in range(0, readers, READERS_A_PUSH)]
        # One after the other, so that each timeline has the same order.
        for first in range(items.start, items.stop, a_push):
            ids = [f"{mark}i{number}" for number in range(first, min(first + a_push, items.stop))]
            meter.send([post("/api/waterfall/discover", items=ids, customers=group) for group in groups], internal=True)

    def push_costed(name, count):
        with meter.costs_of(f"item into a timeline, 100 at once, to {count} items", readers * count):
            push(name, range(count))

    def report_events():
        sessions = max(sizes.events // EVENTS_OF_A_SESSION, 1)
        requests = [post("/api/track", articleId=f"{mark}i{number % sessions % articles}", userId=f"{mark}e{number % sessions}", dwellMs=12_000,
                         eventId=str(uuid.uuid4())) for number in range(sizes.events)]
        with meter.costs_of("report with an event id, of a session that is known", len(requests)):
            meter.send(requests)

    with meter.grows("article put", articles, mine("item", "hot:article")):
        put()
    with meter.grows(f"article read by {sizes.visitors}, beside that", articles, mine("hot:article", "hot:uv:hll")):
        read()
        meter.goes("session of reading, 30 minutes", articles * sizes.visitors, mine("hot:session"))
        meter.goes(f"reader with {min(sizes.visitors, FULL)} interests by reading, 180 days", articles, mine("user:interactions"))
        meter.goes(f"what a visitor added by {sizes.visitors} reports, a day", articles, ["hot:added:*"])
    look()
    meter.goes(f"reader's history of {TOPICS} topics, 7 days", readers, mine("user:views:topic", "user:views:at"))
    interact()
    refresh()
    meter.goes("reader's feed, 30 minutes", interacting, mine("feed:cache", "feed:state"))
    meter.goes(f"reader with {FULL} interactions, 180 days", interacting, mine("user:interactions"))
    push_costed("half", FULL // 2)
    meter.goes(f"timeline of {FULL // 2} items, 30 days", readers, mine("wf:discover"))
    push_costed("full", FULL)
    with meter.costs_of("item into a full timeline, alone, to 200 readers", readers * ALONE):
        push("full", range(FULL, FULL + ALONE), 1)
    with meter.costs_of("page of 20 of a full timeline", readers):
        meter.send([get(f"/api/waterfall/discover?userId={mark}full{reader}&direction=first&limit=20") for reader in range(readers)])
    meter.goes(f"timeline of {FULL} items, full, 30 days", readers, mine("wf:discover"))
    report_events()
    meter.goes("event id of a report, a day", sizes.events, mine("hot:event"))
    interact("w", EVENTS_OF_A_READER, events=True)
    meter.goes("event id of a reader's other write, a day", interacting * EVENTS_OF_A_READER, mine("user:events"))


def disk(state):
    """Bytes of the database and of the index."""
    def size(path):
        return os.path.getsize(path) if os.path.isfile(path) else sum(size(os.path.join(path, name)) for name in os.listdir(path))
    folder = os.path.join(state, "record")
    return {"database": sum(size(os.path.join(folder, name)) for name in os.listdir(folder) if name.startswith("freshet.db")),
            "index": size(os.path.join(folder, "index"))}


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def tables(default, raised):
    """Both as Markdown. Bytes of one, divided by 1,000, are GB of a million; µs of one are seconds of a million."""
    lines = ["| a million times | seen on | GB of Redis | by `MEMORY USAGE` | listpacks raised, GB | by `MEMORY USAGE` |", "|---|---|---|---|---|---|"]
    for one, other in zip(default.memory, raised.memory):
        cells = [figure(value / 1000) for value in (one.used, one.usage, other.used, other.usage)]
        lines.append(f"| {one.what} | {one.count:,} | " + " | ".join(cells) + " |")
    lines += ["", "| a million times | Redis s (listpacks raised) | workers s | nginx s | recorder s | append-only file GB |", "|---|---|---|---|---|---|"]
    for one, other in zip(default.costs, raised.costs):
        rest = [figure(statistics.mean((one.cpu_us[name], other.cpu_us[name]))) for name in ("worker", "nginx", "recorder")]
        lines.append(f"| {one.what} | {figure(one.cpu_us['redis'])} ({figure(other.cpu_us['redis'])}) | " + " | ".join(rest) + f" | {figure(one.aof / 1000)} |")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/scale", description=__doc__.split(". ")[0] + ".")
    parser.add_argument("--articles", type=int, default=20_000, help="at least 600 (default 20,000)")
    parser.add_argument("--visitors", type=int, default=10, help="of each article (default 10)")
    parser.add_argument("--readers", type=int, default=2_000, help="with history and with timelines; a quarter with feeds and interactions (default 2,000)")
    parser.add_argument("--events", type=int, default=50_000, help="reports with an id (default 50,000)")
    parser.add_argument("--tiny", action="store_true", help="600 articles, 20 readers, 1,000 events: does it work?")
    options = parser.parse_args()
    if options.tiny:
        options.articles, options.readers, options.events = 600, 20, 1_000
    if options.articles < FULL + ALONE or min(options.visitors, options.readers, options.events) < 1:
        parser.error(f"--articles is at least {FULL + ALONE}, the others 1")
    return options


def measure(options, directory):
    deployment = Ours(directory, "scale")
    try:
        quiet_s = TINY_QUIET_S if options.tiny else QUIET_S
        default, raised = Meter(deployment, quiet_s), Meter(deployment, quiet_s)
        default.settle()
        before = disk(deployment.state)
        fill_all(default, options, "d")
        after = disk(deployment.state)
        for name, value in RAISED.items():
            raised.client.config_set(name, value)
        fill_all(raised, options, "l")
        redis_server.compact(raised.client)
        print(tables(default, raised))
        rows = interacting_of(options) * (FULL + EVENTS_OF_A_READER)
        print(f"\nDisk: {(after['index'] - before['index']) / options.articles:,.0f} bytes of index an article; database with {options.articles:,} articles and "
              f"{rows:,} interactions {(after['database'] - before['database']) / 1e6:,.1f} MB")
        info = raised.client.info()
        print(f"Fork: {info['latest_fork_usec'] / 1000:,.1f} ms with {info['used_memory_rss'] / 1e9:.2f} GB in memory; fragmentation {info['mem_fragmentation_ratio']}")
        print(f"Raised: {', '.join(f'{name} {value}' for name, value in RAISED.items())}; Redis {info['redis_version']}, {os.cpu_count()} cores")
    finally:
        deployment.stop()


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = tempfile.mkdtemp(prefix="freshet-scale-")
    os.chmod(directory, 0o755)
    try:
        measure(options, directory)
    except (BenchError, AssertionError, OSError, http.client.HTTPException) as error:
        print(f"scripts/scale: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
