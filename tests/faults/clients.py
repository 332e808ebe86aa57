"""F12, F13 and F15: clients that dribble, never read, send what is no request, or go away in the middle."""

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

from faults.invariants import INDEX_FILES, Resources
from faults.load import GETS, LISTS
from faults.scenario import fault, percentile
from faults.wire import request

OTHERS_MS = 10
DEADLINE_S = 1.0


def big_list(service):
    """A list of 100 items with long titles: some megabytes. Its target."""
    for at in range(0, 100, 20):
        lines = [json.dumps({"id": f"big-{number}", "title": "\x01" * 1024, "url": "\x02" * 2048, "published_at": int(time.time()),
                             "tags": ["big"] + [f"{tag:02}" + '"' * 120 for tag in range(31)]}) for number in range(at, at + 20)]
        assert service.internal().post("/api/items", "\n".join(lines)).json()["accepted"] == 20
        for number in range(at, at + 20):
            assert service.public().view(f"big-{number}", "f").status == 200
    target = "/api/hot?limit=100&tag=big"
    wait_until(lambda: len(service.public().get(target).body) > 1_000_000, "a large reply")
    return target


class SlowClients:
    """So many that send a body and a header, and that read, a byte at a time, from these addresses in turn; begun again when they are dropped. In a
    thread with its own loop."""

    def __init__(self, address, target, bodies, headers, reading, sources, pace_s=1.0, come_s=4.0):
        self.dropped, self._address, self._target, self._sources = 0, address, target, itertools.cycle(sources)
        self._counts, self._pace_s, self._come_s = (bodies, headers, reading), pace_s, come_s
        self.open = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self.open >= sum(self._counts), "the slow clients", 40)
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(20)

    async def _all(self):
        body = json.dumps({"articleId": "dribble", "dwellMs": 1}).encode()
        post = request("POST", "/api/track", body)
        head = request("GET", "/api/hot?model=engagement")
        bodies, headers, reading = self._counts
        await asyncio.gather(*(self._again(self._dribble, (post[-len(body) - 2:], post[:-len(body) - 2])) for _ in range(bodies)),
                             *(self._again(self._dribble, (head, b"")) for _ in range(headers)), *(self._again(self._read_slowly) for _ in range(reading)))

    async def _again(self, act, *arguments):
        loop = asyncio.get_running_loop()
        await asyncio.sleep(random.random() * self._come_s)
        while not self._stop.is_set():
            sock = socket.socket()
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            try:
                sock.bind((next(self._sources), 0))
                await loop.sock_connect(sock, self._address)
                self.open += 1
                await act(loop, sock, *arguments)
            except OSError:
                pass
            finally:
                self.dropped += 1
                sock.close()

    async def _dribble(self, loop, sock, parts):
        slow, at_once = parts
        await loop.sock_sendall(sock, at_once)
        for byte in slow:
            await loop.sock_sendall(sock, bytes([byte]))
            await asyncio.sleep(self._pace_s)
            if self._stop.is_set():
                return

    async def _read_slowly(self, loop, sock):
        await loop.sock_sendall(sock, request("GET", self._target))
        while not self._stop.is_set():
            if not await loop.sock_recv(sock, 64):
                return
            await asyncio.sleep(self._pace_s)


# An honest reader's address is in another network than theirs; a neighbour's is in the same.
SLOW, HONEST, NEIGHBOUR = [f"127.66.0.{number}" for number in range(2, 14)], "127.67.0.50", "127.66.0.50"


@fault("F12", "1,000 slow bodies and 500 slow headers from 12 addresses, 200 reading as slowly, with the shipped limits",
       "0 refused at another address, reads at a neighbouring one; GET p99 ≤ 10 ms")
def slow_clients(run):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with run.instance(patient=True, limits=True, hot__max_initial_dwell='"24h"') as service:
        readers, target = run.readers(service), big_list(service)
        workers = set(service.workers())
        # Sixteen requests a second of one address, of which no route gets more than its limit for as long as this takes.
        honest = run.load(service, readers, connections=4, only=(*GETS, "hot", "track"), think_s=0.25, source=HONEST)
        neighbour = run.load(service, readers, connections=1, only=("history", "timeline"), think_s=0.1, source=NEIGHBOUR)
        with honest, neighbour:
            honest.wait_for(run.scale(100, 400))
            alone, began = honest.seconds(), time.monotonic()
            with SlowClients((service.host, service.port), target, 1000, 500, 200, SLOW) as slow:
                together = time.monotonic()
                time.sleep(run.scale(5, 25))
                run.figure(f"{slow.open - slow.dropped} slow clients at once, {slow.dropped} dropped and back")
            until = time.monotonic()
        run.figure(f"alone p99 {1000 * percentile(alone, 0.99):.1f} ms")
        seconds = honest.seconds(None, together, until)
        run.at_most(f"beside them p50 {1000 * percentile(seconds, 0.5):.1f} ms, p99", 1000 * percentile(seconds, 0.99), OTHERS_MS)
        run.figure(f"the longest while they came {1000 * max(honest.seconds(None, began, together), default=0):.0f} ms")
        # An event that waits for Redis (202) is acknowledged; the balance counts it.
        refused = {status: count for load in (honest, neighbour) for status, count in load.statuses(None, began, until).items()
                   if status not in (200, 202)}
        run.none("requests refused or lost", sum(refused.values()), [str(refused)])
        run.none("failed requests", honest.failed + neighbour.failed, honest.failures + neighbour.failures)
        run.none("workers lost", len(workers - set(service.workers())))
        run.balance(service, honest)
        run.judge(honest)


def corpus():
    """{name: bytes}, or None when there is no corpus."""
    folder = os.path.join(SHARED, "corpora/fcgi-malformed")
    if not os.path.isdir(folder):
        return None
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".bin"):
            with open(os.path.join(folder, name), "rb") as file:
                out[name] = file.read()
    return out


def broken_streams(dice, streams):
    """Without end: those of the corpus whole, cut, with flipped bytes, one after the other, and noise."""
    whole = list(streams.values()) + [fastcgi_request(method="POST", uri="/api/track", body=b'{"articleId":"f13","userId":"u","dwellMs":1}')]
    while True:
        data = bytearray(dice.choice(whole))
        kind = dice.randrange(5)
        if kind == 1:
            data = data[:dice.randrange(len(data) + 1)]
        elif kind == 2 and data:
            for _ in range(dice.randrange(1, 4)):
                data[dice.randrange(len(data))] = dice.randrange(256)
        elif kind == 3:
            data += dice.choice(whole)
        elif kind == 4:
            data = bytearray(dice.randbytes(dice.randrange(1, 3000)))
        yield bytes(data)


@fault("F13", "half-sent, malformed and mutated FastCGI streams straight to the socket", "pool stays available, 0 crashes")
def broken_fastcgi(run):
    streams = corpus()
    if streams is None:
        run.figure(f"CORPUS SKIPPED: no {SHARED}/corpora/fcgi-malformed; FRESHET_SHARED names it", False)
        streams = {}
    with run.instance(patient=True, gateway__read_timeout='"1s"', gateway__write_timeout='"1s"') as service:
        workers = set(service.workers())
        load = run.load(service, run.readers(service), connections=4, think_s=0.005)
        count, late, held = run.scale(500, 6000), 0, []
        with load:
            load.wait_for(200)
            began = time.monotonic()
            for number, data in zip(range(count), broken_streams(run.dice, streams)):
                direct = FastCgi(service.socket_path, timeout=5)
                try:
                    direct.send(data)
                except OSError:
                    pass  # refused before the end of it
                if number % 4 == 0 and len(held) < 64:
                    held.append((direct, data, time.monotonic()))  # stays half-sent
                else:
                    direct.close()
                if len(held) == 64:
                    late += sum(_never_dropped(*each) for each in held)
                    held.clear()
            until = time.monotonic()
            load.wait_for(100)
        run.figure(f"{count:,} streams")
        run.none("half-sent ones kept beyond their deadline", late)
        run.at_most("others' p99 meanwhile", 1000 * percentile(load.seconds(None, began, until), 0.99), 100)
        run.none("failed requests of others", load.failed, load.failures)
        run.none("crashes", len(workers - set(service.workers())) + service.status()["respawns"])
        refused = service.status()["refused"]
        run.figure(f"{refused['protocol']:,} refused as malformed, {refused['read_timeout']:,} at their deadline")
        run.balance(service, load)
        run.judge(load)


def _never_dropped(direct, data, since):
    """Whether a half-sent stream is still open long after its deadline. A whole request, or none at all, may keep its connection."""
    try:
        if direct.closed_by_peer(max(0.05, since + DEADLINE_S + 3 - time.monotonic())):
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
    """How many more than before a worker has, once nginx has closed its idle connections, or was given the time to."""
    with contextlib.suppress(AssertionError):
        wait_until(lambda: Resources(service).more_descriptors(before) <= INDEX_FILES, "nginx to close its connections", 30)
    return Resources(service).more_descriptors(before)


def abort(address, dice, targets):
    """One request that ends at a random byte of itself or of its reply; to a path straight, to (host, port) through nginx."""
    data = dice.choice(targets)
    sent = dice.choice((len(data), dice.randrange(1, len(data))))
    straight = isinstance(address, str)
    with socket.socket(socket.AF_UNIX if straight else socket.AF_INET) as client:
        client.settimeout(10)
        client.connect(address)
        client.sendall(data[:sent])
        if sent == len(data) and dice.random() < 0.5:
            client.recv(dice.choice((1, 100, 5000)))
        if not straight and dice.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # an RST


@fault("F15", "clients that go away at random offsets of requests and replies", "descriptors and RSS flat over 10,000")
def aborts(run):
    with run.instance(patient=True) as service:
        readers, count = run.readers(service), run.scale(2500, 10000)
        body = json.dumps({"articleId": "abort", "userId": "u", "dwellMs": 1}).encode()
        item = readers[0].items[0]
        through = [request("GET", "/api/hot?model=engagement&limit=100"), request("GET", f"/api/recommendations?userId={readers[0].id}"),
                   request("POST", "/api/track", body), request("GET", f"/api/waterfall/discover?customerId={readers[0].id}&direction=first")]
        straight = [fastcgi_request(uri="/api/hot"), fastcgi_request(uri=f"/api/items/{item}"),
                    fastcgi_request(uri="/api/stats?ids=" + ",".join(readers[0].items)),
                    fastcgi_request(method="POST", uri="/api/items", body=b"x" * 30000), fastcgi_request(method="POST", uri="/api/track", body=body)]

        def many(times, seed):
            dice = random.Random(seed)
            for number in range(times):
                abort((service.host, service.port), dice, through) if number % 2 else abort(service.socket_path, dice, straight)

        def resources_after(times):
            threads = [threading.Thread(target=many, args=(times // 2, run.dice.random())) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            wait_until(lambda: service.status()["in flight"] <= 1, "quiet", 10)
            return Resources(service)

        load = run.load(service, readers, connections=2, think_s=0.01)
        with load:
            before = resources_after(2000)
            quarters = [before, *(resources_after(count // 4) for _ in range(4))]
            after = quarters[-1]
        # A leak shows in each quarter; a worker's first search, which costs it 1.6 MB, in one.
        usual = statistics.median(later.growth(earlier) for earlier, later in zip(quarters, quarters[1:]))
        run.figure(f"{count // 4 * 4:,} aborts")
        more = descriptors_at_rest(service, before)  # one left behind in a hundred aborts would be twenty or more
        run.figure(f"{more} descriptors more at rest", more <= INDEX_FILES, safety=True)
        run.figure(f"RSS {100 * after.growth(before):+.1f} %, {100 * usual:+.1f} % in the median quarter", usual < 0.0125)
        run.none("workers lost", len(set(before.rss_kib) - set(after.rss_kib)))
        run.none("failed requests of others", load.failed, load.failures)
        run.figure(f"others' reads p99 {1000 * percentile(load.seconds(LISTS), 0.99):.0f} ms")
        run.balance(service, load)
        run.judge(load)
