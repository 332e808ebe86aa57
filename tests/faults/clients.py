"""F12, F13 and F15: clients that send or read very slowly, send malformed requests, or disconnect in the middle."""

import asyncio
import contextlib
import itertools
import json
import os
import random
import resource
import socket
import statistics
import threading
import time

from fastcgi import Connection as FastCgi
from fastcgi import request as fastcgi_request
from service import SHARED, wait_until

from faults.invariants import MORE_DESCRIPTORS, Resources
from faults.load import GETS, PAGE_READS
from faults.scenario import fault, percentile
from faults.wire import request

READER_P99_MS = 10
READ_TIMEOUT_S = 1.0  # gateway.read_timeout in F13


def create_big_list(service):
    """Creates a hot list of 100 items with long titles, several MB in all. Returns its request target."""
    for at in range(0, 100, 20):
        lines = [json.dumps({"id": f"big-{number}", "title": "\\" * 1024, "url": "\x02" * 2048, "published_at": int(time.time()),
                             "tags": ["big"] + [f"{tag:02}" + '"' * 61 for tag in range(31)]}) for number in range(at, at + 20)]
        assert service.internal().post("/api/items", "\n".join(lines)).json()["accepted"] == 20
        for number in range(at, at + 20):
            assert service.public().view(f"big-{number}", "f").status == 200
    target = "/api/hot?limit=100&tag=big"
    wait_until(lambda: len(service.public().get(target).body) > 1_000_000, "a large reply")
    return target


class SlowClients:
    """Clients that send a body (`bodies` of them) or a header (`headers`) or read a response (`reading`) a few bytes at
    a time.

    Source addresses are used in turn. Dropped clients reconnect. Runs an event loop in its own thread. `opened` and
    `dropped` count connections.
    """

    def __init__(self, address, target, bodies, headers, reading, sources, pause_s=1.0, ramp_s=4.0):
        self.dropped, self._address, self._target, self._sources = 0, address, target, itertools.cycle(sources)
        self._counts, self._pause_s, self._ramp_s = (bodies, headers, reading), pause_s, ramp_s
        self.opened = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run_all()), daemon=True)

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self.opened >= sum(self._counts), "the slow clients to connect", 40)
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(20)

    async def _run_all(self):
        body = json.dumps({"articleId": "slow-body", "dwellMs": 1}).encode()
        post = request("POST", "/api/track", body)
        head = request("GET", "/api/hot?model=engagement")
        bodies, headers, reading = self._counts
        await asyncio.gather(*(self._reconnect(self._send_slowly, (post[-len(body) - 2:], post[:-len(body) - 2])) for _ in range(bodies)),
                             *(self._reconnect(self._send_slowly, (head, b"")) for _ in range(headers)),
                             *(self._reconnect(self._read_slowly) for _ in range(reading)))

    async def _reconnect(self, act, *arguments):
        loop = asyncio.get_running_loop()
        await asyncio.sleep(random.random() * self._ramp_s)
        while not self._stop.is_set():
            sock = socket.socket()
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            try:
                sock.bind((next(self._sources), 0))
                await loop.sock_connect(sock, self._address)
                self.opened += 1
                await act(loop, sock, *arguments)
            except OSError:
                pass
            finally:
                self.dropped += 1
                sock.close()

    async def _send_slowly(self, loop, sock, parts):
        slow, at_once = parts
        await loop.sock_sendall(sock, at_once)
        for byte in slow:
            await loop.sock_sendall(sock, bytes([byte]))
            await asyncio.sleep(self._pause_s)
            if self._stop.is_set():
                return

    async def _read_slowly(self, loop, sock):
        await loop.sock_sendall(sock, request("GET", self._target))
        while not self._stop.is_set():
            if not await loop.sock_recv(sock, 64):
                return
            await asyncio.sleep(self._pause_s)


# The honest reader's address is in a different network from the slow clients', the neighbor's is in the same one.
SLOW, HONEST, NEIGHBOR = [f"127.66.0.{number}" for number in range(2, 14)], "127.67.0.50", "127.66.0.50"


@fault("F12", "1,000 slow bodies, 500 slow headers, 200 slow clients from 12 addresses, limits on",
       "0 refused, also for reads from the same network; GET p99 ≤ 10 ms")
def slow_clients(run):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with run.instance(long_timeouts=True, limits=True, hot__max_initial_dwell='"24h"') as service:
        readers, target = run.readers(service), create_big_list(service)
        workers = set(service.workers())
        # 16 requests per second from one address: below the limit of every route for the length of the test.
        honest = run.load(service, readers, connections=4, only=(*GETS, "hot", "track"), think_s=0.25, source=HONEST)
        neighbor = run.load(service, readers, connections=1, only=("history", "timeline"), think_s=0.1, source=NEIGHBOR)
        with honest, neighbor:
            honest.wait_for(run.scale(100, 400))
            alone, began = honest.latencies_s(), time.monotonic()
            with SlowClients((service.host, service.port), target, 1000, 500, 200, SLOW) as slow:
                connected = time.monotonic()
                time.sleep(run.scale(5, 25))
                run.report(f"{slow.opened - slow.dropped} slow clients at once, {slow.dropped} dropped and reconnected")
            until = time.monotonic()
        run.report(f"alone p99 {1000 * percentile(alone, 0.99):.1f} ms")
        latencies_s = honest.latencies_s(None, connected, until)
        run.expect_at_most(f"with slow clients p50 {1000 * percentile(latencies_s, 0.5):.1f} ms, p99", 1000 * percentile(latencies_s, 0.99), READER_P99_MS)
        run.report(f"slowest while they connected {1000 * max(honest.latencies_s(None, began, connected), default=0):.0f} ms")
        # 202 (event queued for Redis) counts as an acknowledgement.
        refused = {status: count for load in (honest, neighbor) for status, count in load.statuses(None, began, until).items()
                   if status not in (200, 202)}
        run.expect_none("requests refused or lost", sum(refused.values()), [str(refused)])
        run.expect_none("failed requests", honest.failed + neighbor.failed, honest.failures + neighbor.failures)
        run.expect_none("workers lost", len(workers - set(service.workers())))
        run.check_events(service, honest)
        run.check_replies(honest)


def corpus():
    """{name: bytes}, or None if the corpus is missing."""
    folder = os.path.join(SHARED, "corpora/fcgi-malformed")
    if not os.path.isdir(folder):
        return None
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".bin"):
            with open(os.path.join(folder, name), "rb") as file:
                out[name] = file.read()
    return out


def broken_streams(rng, streams):
    """Endless iterator of byte streams: whole, truncated, mutated or concatenated ones of the corpus, and random bytes.
    """
    whole = list(streams.values()) + [fastcgi_request(method="POST", uri="/api/track", body=b'{"articleId":"f13","userId":"u","dwellMs":1}')]
    while True:
        data = bytearray(rng.choice(whole))
        kind = rng.randrange(5)
        if kind == 1:
            data = data[:rng.randrange(len(data) + 1)]
        elif kind == 2 and data:
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == 3:
            data += rng.choice(whole)
        elif kind == 4:
            data = bytearray(rng.randbytes(rng.randrange(1, 3000)))
        yield bytes(data)


@fault("F13", "truncated, malformed and mutated FastCGI streams sent to the socket", "pool stays available, 0 crashes")
def broken_fastcgi(run):
    streams = corpus()
    if streams is None:
        run.report(f"CORPUS SKIPPED: {SHARED}/corpora/fcgi-malformed is missing; set FRESHET_SHARED", False)
        streams = {}
    with run.instance(long_timeouts=True, gateway__read_timeout='"1s"', gateway__write_timeout='"1s"') as service:
        workers = set(service.workers())
        load = run.load(service, run.readers(service), connections=4, think_s=0.005)
        count, overdue, held = run.scale(500, 6000), 0, []
        with load:
            load.wait_for(200)
            began = time.monotonic()
            for number, data in zip(range(count), broken_streams(run.rng, streams)):
                direct = FastCgi(service.socket_path, timeout=5)
                try:
                    direct.send(data)
                except OSError:
                    pass  # closed by the service before it was sent completely
                if number % 4 == 0 and len(held) < 64:
                    held.append((direct, data, time.monotonic()))  # left open, perhaps incomplete
                else:
                    direct.close()
                if len(held) == 64:
                    overdue += sum(_is_overdue(*each) for each in held)
                    held.clear()
            until = time.monotonic()
            load.wait_for(100)
        run.report(f"{count:,} streams")
        run.expect_none("incomplete streams kept beyond their deadline", overdue)
        run.expect_at_most("others' p99 meanwhile", 1000 * percentile(load.latencies_s(None, began, until), 0.99), 100)
        run.expect_none("failed requests of others", load.failed, load.failures)
        run.expect_none("crashes", len(workers - set(service.workers())) + service.status()["respawns"])
        refused = service.status()["refused"]
        run.report(f"{refused['protocol']:,} refused as malformed, {refused['read_timeout']:,} timed out")
        run.check_events(service, load)
        run.check_replies(load)


def _is_overdue(direct, data, since):
    """True if an incomplete stream is still open long after its deadline. A connection with a complete request, or with
    none, may stay.
    """
    try:
        if direct.closed_by_peer(max(0.05, since + READ_TIMEOUT_S + 3 - time.monotonic())):
            return False
        try:
            direct.socket.settimeout(2)
            direct.send(fastcgi_request())
            return direct.reply() is None
        except OSError:
            return True
    finally:
        direct.close()


def descriptors_at_rest(service, before):
    """The largest increase of a worker's descriptors, after giving nginx time to close its idle connections."""
    with contextlib.suppress(AssertionError):
        wait_until(lambda: Resources(service).descriptor_growth(before) <= MORE_DESCRIPTORS, "nginx to close its connections", 30)
    return Resources(service).descriptor_growth(before)


def abort(address, rng, targets):
    """Sends a request and disconnects at a random byte of the request or the reply.

    address: a path for the worker socket, or (host, port) for nginx.
    """
    data = rng.choice(targets)
    sent = rng.choice((len(data), rng.randrange(1, len(data))))
    direct = isinstance(address, str)
    with socket.socket(socket.AF_UNIX if direct else socket.AF_INET) as client:
        client.settimeout(10)
        client.connect(address)
        client.sendall(data[:sent])
        if sent == len(data) and rng.random() < 0.5:
            client.recv(rng.choice((1, 100, 5000)))
        if not direct and rng.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close with RST


@fault("F15", "clients that disconnect at random offsets of requests and replies", "descriptors and RSS flat over 10,000")
def aborts(run):
    with run.instance(long_timeouts=True) as service:
        readers, count = run.readers(service), run.scale(2500, 10000)
        body = json.dumps({"articleId": "abort", "userId": "u", "dwellMs": 1}).encode()
        item = readers[0].items[0]
        via_nginx = [request("GET", "/api/hot?model=engagement&limit=100"), request("GET", f"/api/recommendations?userId={readers[0].id}"),
                   request("POST", "/api/track", body), request("GET", f"/api/waterfall/discover?customerId={readers[0].id}&direction=first")]
        direct = [fastcgi_request(uri="/api/hot"), fastcgi_request(uri=f"/api/items/{item}"),
                    fastcgi_request(uri="/api/stats?ids=" + ",".join(readers[0].items)),
                    fastcgi_request(method="POST", uri="/api/items", body=b"x" * 30000), fastcgi_request(method="POST", uri="/api/track", body=body)]

        def abort_many(times, seed):
            rng = random.Random(seed)
            for number in range(times):
                abort((service.host, service.port), rng, via_nginx) if number % 2 else abort(service.socket_path, rng, direct)

        def resources_after(times):
            threads = [threading.Thread(target=abort_many, args=(times // 2, run.rng.random())) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            wait_until(lambda: service.status()["in flight"] <= 1, "requests in flight to end", 10)
            return Resources(service)

        load = run.load(service, readers, connections=2, think_s=0.01)
        with load:
            before = resources_after(2000)
            quarters = [before, *(resources_after(count // 4) for _ in range(4))]
            after = quarters[-1]
        # A leak shows in every quarter; a worker's first search, which takes 1.6 MB, only in one.
        median_growth = statistics.median(later.rss_growth(earlier) for earlier, later in zip(quarters, quarters[1:]))
        run.report(f"{count // 4 * 4:,} aborts")
        more = descriptors_at_rest(service, before)  # a leak of one per hundred aborts would be twenty or more
        run.report(f"{more} more descriptors when idle", more <= MORE_DESCRIPTORS, safety=True)
        run.report(f"RSS {100 * after.rss_growth(before):+.1f} %, {100 * median_growth:+.1f} % in the median quarter", median_growth < 0.0125)
        run.expect_none("workers lost", len(set(before.rss_kib) - set(after.rss_kib)))
        run.expect_none("failed requests of others", load.failed, load.failures)
        run.report(f"others' reads p99 {1000 * percentile(load.latencies_s(PAGE_READS), 0.99):.0f} ms")
        run.check_events(service, load)
        run.check_replies(load)
