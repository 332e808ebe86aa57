"""Measures Redis memory per million of each thing, and CPU per million requests. Called by scripts/scale."""

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
from freshet import Freshet
from procs import BenchError, wait_until
from recommend_bench import status

RAISED = {"zset-max-listpack-entries": 512, "hash-max-listpack-value": 512}
CONNECTIONS, PIPELINE_DEPTH = 32, 20  # nginx handles one request of a connection at a time
MAX_REQUESTS_PER_CONNECTION = 100  # keepalive_requests of the public server
ITEMS_PER_POST, LINES_PER_POST, READERS_PER_PUSH, ITEMS_PER_PUSH = 1_000, 25_000, 200, 100
TOPICS, FULL, TITLE_WORDS = 10, 500, 9  # history.size; the cap of a timeline and interactions.max_kept; words in a title
EVENTS_PER_READER, EVENTS_PER_SESSION, SINGLE_PUSHES = 100, 50, 8
LAG_LIMIT_S = 600
SETTLE_S, TINY_SETTLE_S = 1.2, 0.3  # workers flush rank updates after 0.25 s and impressions after 1 s
CONTENT_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
KINDS = ("like", "favorite", "share", "reply", "post")
SHARED = ("hot:rank", "hot:placed", "hot:placed:views", "hot:score", "hot:published", "hot:newest", "tag:*")


@dataclass
class Memory:
    """Bytes in Redis per unit, measured by the growth of used_memory and by MEMORY USAGE of the keys."""
    label: str
    count: int
    used: float
    usage: float


@dataclass
class Cost:
    """µs of CPU and bytes of the append-only file per unit."""
    label: str
    count: int
    cpu_us: dict
    aof: float


class Meter:
    """Measures memory and costs of one configuration of Redis."""

    def __init__(self, deployment, settle_s):
        self.deployment, self.client, self.settle_s = deployment, deployment.redis_client(), settle_s
        self.memory, self.costs = [], []

    def settle(self):
        """Waits until the recorder, the workers' buffers and Redis are idle."""
        wait_until(lambda: status(self.deployment)["recorder lag entries"] == 0, "the recorder", LAG_LIMIT_S)
        time.sleep(self.settle_s)
        redis_server.wait_until_idle(self.client)

    def data_bytes(self):
        """used_memory without buffers of clients and of the append-only file, and with 12 bytes of hash table per key.

        A hash table grows by doubling, so it has 8 to 16 bytes of pointers per key, depending on the moment. Redis' own
        total of the clients' buffers is up to a second old, so it is corrected.
        """
        stats, clients, info = self.client.pipeline().memory_stats().client_list().info("keyspace").execute()
        keys, stale = info.get("db0", {"keys": 0, "expires": 0}), stats["clients.normal"] - sum(int(each["tot-mem"]) for each in clients)
        tables = stats.get("db.0", {"overhead.hashtable.main": 0, "overhead.hashtable.expires": 0})
        entries, deadlines = tables["overhead.hashtable.main"], tables["overhead.hashtable.expires"]
        pointers = entries - 40 * keys["keys"] + deadlines - 24 * keys["expires"]  # without the entries and their objects
        return stats["dataset.bytes"] + stale + entries + deadlines - pointers + 12 * (keys["keys"] + keys["expires"])

    def keys(self, patterns):
        return [key for pattern in patterns for key in self.client.scan_iter(pattern, count=5000)]

    def usage(self, keys):
        """Total MEMORY USAGE of the keys, extrapolated from at most about 5,000 of them."""
        sample, sizes = keys[::max(1, len(keys) // 5000)], []
        for first in range(0, len(sample), 500):
            pipeline = self.client.pipeline(transaction=False)
            for key in sample[first:first + 500]:
                pipeline.execute_command("MEMORY", "USAGE", key, "SAMPLES", 0)
            sizes += [size or 0 for size in pipeline.execute()]
        return sum(sizes) * len(keys) / max(len(sample), 1)

    @contextlib.contextmanager
    def measure_growth(self, label, count, patterns):
        """Measures the growth of the matching keys and of shared keys during the block."""
        def total():
            return self.data_bytes(), self.usage(self.keys(patterns)) + sum(self.usage([key]) for key in self.keys(SHARED))

        before = total()
        yield
        self.memory.append(Memory(label, count, *((now - then) / count for now, then in zip(total(), before))))

    def measure_freed(self, label, count, patterns):
        """Deletes the matching keys and measures how much memory that frees."""
        keys = self.keys(patterns)
        usage, before = self.usage(keys), self.data_bytes()
        for first in range(0, len(keys), 1000):
            self.client.delete(*keys[first:first + 1000])
        self.memory.append(Memory(label, count, (before - self.data_bytes()) / count, usage / count))

    @contextlib.contextmanager
    def measure_cost(self, label, count):
        """Measures CPU time and growth of the append-only file during the block, until all is written."""
        before = self._totals()
        yield
        self.settle()
        after = self._totals()
        cost = {name: (after[name] - before[name]) / count for name in before}
        aof = cost.pop("aof")
        self.costs.append(Cost(label, count, cost, aof))

    def _totals(self):
        recorder, groups = status(self.deployment)["recorder pid"], self.deployment.groups()
        pids = {"redis": groups["redis"], "worker": [pid for pid in groups["worker"] if pid != recorder], "nginx": groups["nginx"], "recorder": [recorder]}
        return {name: procs.cpu_us(each) for name, each in pids.items()} | {"aof": self.client.info("persistence")["aof_current_size"]}

    def send(self, requests, internal=False):
        send((self.deployment.host, self.deployment.internal_port if internal else self.deployment.port), requests)

    def post_lines(self, path, lines, per_post):
        """Sends NDJSON to the internal server. All lines must be accepted."""
        for first in range(0, len(lines), per_post):
            part = lines[first:first + per_post]
            request = urllib.request.Request(self.deployment.internal_url + path, "\n".join(part).encode(), {"Content-Type": "application/x-ndjson"})
            with urllib.request.urlopen(request, timeout=60) as reply:
                body = json.load(reply)
            if body["accepted"] != len(part):
                raise BenchError(f"{path}: {str(body)[:300]}")


def post(path, **body):
    text = json.dumps(body, separators=(",", ":"))
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0\r\nContent-Type: application/json\r\n" \
           f"Content-Length: {len(text)}\r\n\r\n{text}".encode()


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0\r\n\r\n".encode()


def send(address, requests):
    """Sends pipelined requests over keep-alive connections. All replies must be 200 and not degraded."""
    per_round = CONNECTIONS * PIPELINE_DEPTH
    for begin in range(0, len(requests), CONNECTIONS * MAX_REQUESTS_PER_CONNECTION):
        part = requests[begin:begin + CONNECTIONS * MAX_REQUESTS_PER_CONNECTION]
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(min(CONNECTIONS, len(part)))]
            for first in range(0, len(part), per_round):
                pipelines = [part[at:at + PIPELINE_DEPTH] for at in range(first, min(first + per_round, len(part)), PIPELINE_DEPTH)]
                for connection, pipeline in zip(connections, pipelines):
                    connection.sendall(b"".join(pipeline))
                for connection, pipeline in zip(connections, pipelines):
                    receive_replies(connection, len(pipeline))


def receive_replies(connection, count):
    data, at = b"", 0
    while count:
        head = data.find(b"\r\n\r\n", at)
        length = CONTENT_LENGTH.search(data, at, head + 2) if head >= 0 else None
        if head >= 0 and not length:
            raise BenchError(f"a reply without Content-Length: {data[at:head]!r}")
        if length and len(data) >= head + 4 + int(length[1]):
            end = head + 4 + int(length[1])
            if data[at + 9:at + 12] != b"200" or b'"degraded":true' in data[head:end]:
                raise BenchError(f"unexpected reply: {data[at:at + 400]!r}")
            at, count = end, count - 1
            continue
        more = connection.recv(1 << 18)
        if not more:
            raise BenchError("the service closed the connection")
        data, at = data[at:] + more, 0


def item(prefix, number, now, tag_count):
    tags = [f"topic{number % 100}", f"t{number % 37}", *(f"tag{(number + 31 * each) % 977}" for each in range(98))]
    words = " ".join(f"{'abcdefghij'[number * step % 10] * 3}{number * step % 977}" for step in range(1, TITLE_WORDS))
    return json.dumps({"id": f"{prefix}i{number}", "title": f"Article {number} about {words}", "url": f"https://example.org/articles/{number}",
                       "author": f"author{number % 500}", "tags": tags[:tag_count], "published_at": now - 60 - number * 60})


def interacting_readers(sizes):
    """Number of readers with feeds and interactions."""
    return max(sizes.readers // 4, min(sizes.readers, 20))


def measure_all(meter, sizes, prefix):
    """Measures everything once, with ids that begin with `prefix`."""
    now, articles, readers = int(time.time()), sizes.articles, sizes.readers
    interacting = interacting_readers(sizes)

    def patterns(*key_prefixes):
        return [f"{each}:{{{prefix}*" for each in key_prefixes]

    def put():
        lines = [item(prefix, number, now, sizes.tags) for number in range(articles)]
        with meter.measure_cost("article put, 1,000 at once", articles):
            meter.post_lines("/api/items", lines, ITEMS_PER_POST)

    def read():
        # Each visitor reads as many articles as each article has visitors.
        requests = [post("/api/track", articleId=f"{prefix}i{article}", userId=f"{prefix}v{(article + visit * 7919) % articles}", dwellMs=12_000 + visit)
                    for visit in range(sizes.visitors) for article in range(articles)]
        with meter.measure_cost("report of reading, the session's first", len(requests)):
            meter.send(requests)

    def view_topics():
        requests = [post("/api/history", userId=f"{prefix}h{reader}", topicId=f"{prefix}i{(reader + topic * 31) % articles}")
                    for topic in range(TOPICS) for reader in range(readers)]
        with meter.measure_cost("view of a topic", len(requests)):
            meter.send(requests)

    def interact(name="r", per_reader=FULL, events=False):
        lines = [json.dumps({"userId": f"{prefix}{name}{reader}", "topicId": f"{prefix}i{(reader + number) % articles}", "kind": KINDS[number % len(KINDS)],
                             "at": now - number * 600} | ({"eventId": str(uuid.uuid4())} if events else {}))
                 for number in range(per_reader) for reader in range(interacting)]
        with meter.measure_cost(f"interaction, 25,000 at once{', with an event id' if events else ''}", len(lines)):
            meter.post_lines("/api/interactions", lines, LINES_PER_POST)

    def refresh():
        requests = [post("/api/feed", action="refresh", userId=f"{prefix}r{reader}", limit=20) for reader in range(interacting)]
        with meter.measure_cost(f"refresh of a feed among {articles:,} articles", len(requests)):
            meter.send(requests)

    def push(name, items, per_push=ITEMS_PER_PUSH):
        groups = [[f"{prefix}{name}{reader}" for reader in range(first, min(first + READERS_PER_PUSH, readers))] for first in range(0, readers, READERS_PER_PUSH)]
        # Sent one batch of items at a time, so that all timelines have the same order.
        for first in range(items.start, items.stop, per_push):
            ids = [f"{prefix}i{number}" for number in range(first, min(first + per_push, items.stop))]
            meter.send([post("/api/waterfall/discover", items=ids, customers=group) for group in groups], internal=True)

    def measure_push(name, count):
        with meter.measure_cost(f"item into a timeline, 100 at once, to {count} items", readers * count):
            push(name, range(count))

    def report_events():
        sessions = max(sizes.events // EVENTS_PER_SESSION, 1)
        requests = [post("/api/track", articleId=f"{prefix}i{number % sessions % articles}", userId=f"{prefix}e{number % sessions}", dwellMs=12_000,
                         eventId=str(uuid.uuid4())) for number in range(sizes.events)]
        with meter.measure_cost("report with an event id, of a session that is known", len(requests)):
            meter.send(requests)

    with meter.measure_growth("article put", articles, patterns("item", "hot:article")):
        put()
    with meter.measure_growth(f"article read by {sizes.visitors}, in addition", articles, patterns("hot:article", "hot:uv:hll", "hot:uv")):
        read()
        meter.measure_freed("session of reading, 30 minutes", articles * sizes.visitors, patterns("hot:session"))
        meter.measure_freed(f"reader with {min(sizes.visitors, FULL)} interests by reading, 180 days", articles, patterns("user:interactions"))
        meter.measure_freed(f"contributions of a visitor with {sizes.visitors} reports, a day", articles, ["hot:added:*"])
    view_topics()
    meter.measure_freed(f"reader's history of {TOPICS} topics, 7 days", readers, patterns("user:views:topic", "user:views:at"))
    interact()
    refresh()
    meter.measure_freed("reader's feed, 30 minutes", interacting, patterns("feed:cache", "feed:state"))
    meter.measure_freed(f"reader with {FULL} interactions, 180 days", interacting, patterns("user:interactions"))
    measure_push("half", FULL // 2)
    meter.measure_freed(f"timeline of {FULL // 2} items, 30 days", readers, patterns("wf:discover"))
    measure_push("full", FULL)
    with meter.measure_cost("item into a full timeline, alone, to 200 readers", readers * SINGLE_PUSHES):
        push("full", range(FULL, FULL + SINGLE_PUSHES), 1)
    with meter.measure_cost("page of 20 of a full timeline", readers):
        meter.send([get(f"/api/waterfall/discover?userId={prefix}full{reader}&direction=first&limit=20") for reader in range(readers)])
    meter.measure_freed(f"timeline of {FULL} items, full, 30 days", readers, patterns("wf:discover"))
    report_events()
    meter.measure_freed("event id of a report, a day", sizes.events, patterns("hot:event"))
    interact("w", EVENTS_PER_READER, events=True)
    meter.measure_freed("event id of a reader's other write, a day", interacting * EVENTS_PER_READER, patterns("user:events"))


def disk_bytes(state):
    """Bytes of the database and of the index."""
    def size(path):
        return os.path.getsize(path) if os.path.isfile(path) else sum(size(os.path.join(path, name)) for name in os.listdir(path))
    folder = os.path.join(state, "record")
    return {"database": sum(size(os.path.join(folder, name)) for name in os.listdir(folder) if name.startswith("freshet.db")),
            "index": size(os.path.join(folder, "index"))}


def format_number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def tables(default, raised):
    """The tables of memory and of costs, in Markdown. Bytes per unit / 1,000 are GB per million; µs per unit are
    seconds per million.
    """
    lines = ["| a million times | sample | GB of Redis | by `MEMORY USAGE` | listpacks raised, GB | by `MEMORY USAGE` |", "|---|---|---|---|---|---|"]
    for one, other in zip(default.memory, raised.memory):
        cells = [format_number(value / 1000) for value in (one.used, one.usage, other.used, other.usage)]
        lines.append(f"| {one.label} | {one.count:,} | " + " | ".join(cells) + " |")
    lines += ["", "| a million times | Redis s (listpacks raised) | workers s | nginx s | recorder s | append-only file GB |", "|---|---|---|---|---|---|"]
    for one, other in zip(default.costs, raised.costs):
        rest = [format_number(statistics.mean((one.cpu_us[name], other.cpu_us[name]))) for name in ("worker", "nginx", "recorder")]
        lines.append(f"| {one.label} | {format_number(one.cpu_us['redis'])} ({format_number(other.cpu_us['redis'])}) | " + " | ".join(rest) + f" | {format_number(one.aof / 1000)} |")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/scale", description=__doc__.split(". ")[0] + ".")
    parser.add_argument("--articles", type=int, default=20_000, help=f"number of articles, at least {FULL + SINGLE_PUSHES} (default 20,000)")
    parser.add_argument("--tags", type=int, default=2, help="tags of each article, at most 100 (default 2)")
    parser.add_argument("--visitors", type=int, default=10, help="visitors of each article (default 10)")
    parser.add_argument("--readers", type=int, default=2_000, help="readers with histories and timelines; a quarter of them have feeds and interactions (default 2,000)")
    parser.add_argument("--events", type=int, default=50_000, help="reports with an event id (default 50,000)")
    parser.add_argument("--tiny", action="store_true", help="600 articles, 20 readers and 1,000 events, to test the script")
    options = parser.parse_args()
    if options.tiny:
        options.articles, options.readers, options.events = 600, 20, 1_000
    if options.articles < FULL + SINGLE_PUSHES or min(options.visitors, options.readers, options.events) < 1:
        parser.error(f"--articles is at least {FULL + SINGLE_PUSHES}, the others at least 1")
    if not 0 <= options.tags <= 100:
        parser.error("--tags is 0 to 100")
    return options


def measure(options, directory):
    deployment = Freshet(directory, "scale")
    try:
        settle_s = TINY_SETTLE_S if options.tiny else SETTLE_S
        default, raised = Meter(deployment, settle_s), Meter(deployment, settle_s)
        default.settle()
        before = disk_bytes(deployment.state)
        measure_all(default, options, "d")
        after = disk_bytes(deployment.state)
        for name, value in RAISED.items():
            raised.client.config_set(name, value)
        measure_all(raised, options, "l")
        redis_server.rewrite_aof(raised.client)
        print(tables(default, raised))
        rows = interacting_readers(options) * (FULL + EVENTS_PER_READER)
        print(f"\nDisk: {(after['index'] - before['index']) / options.articles:,.0f} bytes of index per article; database with {options.articles:,} articles and "
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
