"""A load of many readers. Every reply is checked for other readers' data, and every event is recorded in a ledger."""

import array
import asyncio
import contextlib
import json
import os
import random
import threading
import time

from faults import identities
from faults.event_ledger import EventLedger, pseudonym
from faults.wire import Connection, NoReply, request

RETRY_DELAY_S = 0.02
GIVE_UP_S = 45.0           # an event not acknowledged by then stays in doubt
REPEAT_SHARE = 0.03        # share of acknowledged events sent again, as if the reply had been lost
FEED_EVENT_S = 50.0        # a page of the feed may be requested again, with the same event id, for a minute
MAX_EXAMPLES = 20

READ, WRITE = "read", "write"


class Operation:
    """A request of the load. Operations with make_event are repeated until acknowledged, others are sent once.

    check: a function of identities. make(load, reader) and make_event(load, reader, event) return the bytes of a
    request.
    """

    def __init__(self, name, kind, weight, check, make=None, internal=False, make_event=None):
        self.name, self.kind, self.weight, self.check = name, kind, weight, check
        self.make, self.internal, self.make_event = make, internal, make_event


def _feed(load, reader):
    event = f"f{int(load.elapsed() / FEED_EVENT_S)}"
    return request("POST", "/api/feed", json.dumps({"action": "refresh", "limit": 2, "agent_id": reader.id, "query": reader.word,
                                                    "eventId": event}).encode())


def _history_view(load, reader):
    return request("POST", "/api/history", json.dumps({"userId": reader.id, "topicId": load.rng.choice(reader.viewed)}).encode())


def _track(load, reader, event):
    return request("POST", "/api/track", json.dumps({"articleId": reader.article, "dwellMs": reader.dwell_ms, "userId": reader.id,
                                                     "sessionId": f"s{event}", "eventId": event}).encode())


def _view(load, reader, event):
    return request("POST", "/api/views", json.dumps({"articleId": reader.viewed_article, "fingerprint": f"f{event}", "publishedAt": load.published_at,
                                                     "eventId": event}).encode())


OPERATIONS = [
    Operation("history", READ, 3, identities.check_history, lambda load, reader: request("GET", f"/api/history?userId={reader.id}")),
    Operation("timeline", READ, 3, identities.check_timeline, lambda load, reader: request(
        "GET", f"/api/waterfall/{identities.CHANNEL}?customerId={reader.id}&direction=first&limit={identities.PAGE}")),
    Operation("recommendations", READ, 1, identities.check_recommendations, lambda load, reader: request(
        "GET", f"/api/recommendations?userId={reader.id}&limit=10")),
    Operation("feed", READ, 1, identities.check_feed, _feed),
    Operation("hot", READ, 2, identities.check_list, lambda load, reader: request(
        "GET", f"/api/hot?model=engagement&limit={reader.list_limit}")),
    Operation("item", READ, 2, identities.check_item, lambda load, reader: request("GET", f"/api/items/{load.rng.choice(reader.items)}"), internal=True),
    Operation("stats", READ, 1, identities.check_stats, lambda load, reader: request("GET", f"/api/articles/{reader.read_article}/stats"), internal=True),
    Operation("history_view", WRITE, 1, identities.check_ok, _history_view),
    Operation("track", WRITE, 4, identities.check_track, make_event=_track),
    Operation("view", WRITE, 1, identities.check_ok, make_event=_view),
]
GETS = ("history", "timeline", "recommendations", "item", "stats")
PAGE_READS = ("history", "timeline", "recommendations", "feed", "hot")  # contents of pages, served even while Redis is down (R4)


def _make_ledger(instance, readers):
    """Redis keys contain pseudonyms of events, except those of a fake instance, which has no salt."""
    if not hasattr(instance, "state"):
        return EventLedger()
    with open(os.path.join(instance.state, "etc/salt"), "rb") as file:
        salt = file.read().rstrip(b"\r\n")
    visitors = {reader.article: "u" + pseudonym(salt, "reader", reader.id) for reader in readers}
    return EventLedger(lambda kind, article, event: pseudonym(salt, "event", visitors[article], event) if kind == "track"
                       else pseudonym(salt, "named event", f"f{event}", event))


class Load:
    """Sends requests over `connections` connections, on an event loop in its own thread.

    only: names of operations. allowed: accepted statuses of reads; other statuses and missing replies are failures.
    think_s: mean pause between two requests of a connection. source: client address. repeat_share: of acknowledged
    events, which are sent again. Other threads may read the counters while the load runs, but nothing else.
    """

    def __init__(self, instance, readers, seed, connections=16, only=None, allowed=(200,), think_s=0.0, source=None, repeat_share=None):
        self.readers, self.rng = readers, random.Random(seed)
        self.ledger, self.published_at = _make_ledger(instance, readers), int(time.time())
        self.failures, self.mixups = [], []  # descriptions of the first MAX_EXAMPLES
        self.failed = self.mixed_up = self.requests = 0
        self._host, self._ports = instance.host, (instance.port, instance.internal_port)
        self._connections, self._allowed, self._think_s, self._source = connections, set(allowed), think_s, source
        self._repeat_share = REPEAT_SHARE if repeat_share is None else repeat_share
        self._operations = [each for each in OPERATIONS if only is None or each.name in only]
        # One entry per request: time of the reply, latency, index in OPERATIONS, status (0: no reply; bit 15:
        # degraded).
        self._times, self._latencies_s = array.array("d"), array.array("f")
        self._operation_indexes, self._statuses = array.array("B"), array.array("H")
        self._stop = threading.Event()
        self._thread, self._crash = threading.Thread(target=self._run, daemon=True), None

    def __enter__(self):
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._stop.set()
        self._thread.join(GIVE_UP_S + 60)
        assert not self._thread.is_alive(), "the load does not stop"
        if self._crash:
            raise self._crash

    def elapsed(self):
        return time.monotonic() - self._began

    def wait_for(self, count, limit_s=60.0):
        """Waits until `count` more requests have been made."""
        target, deadline = self.requests + count, time.monotonic() + limit_s
        while self.requests < target:
            if self._crash:
                raise self._crash
            assert time.monotonic() < deadline, f"the load made {self.requests} of {target} requests: {self.failures}"
            time.sleep(0.005)

    # --- results of requests answered from `since` to before `until` (time.monotonic)

    def latencies_s(self, names=None, since=None, until=None):
        """Sorted latencies of these operations in seconds."""
        return sorted(self._latencies_s[row] for row in self._rows(names, since, until))

    def statuses(self, names=None, since=None, until=None):
        """{status (0: no reply): count}"""
        out = {}
        for row in self._rows(names, since, until):
            status = self._statuses[row] & 0x7fff
            out[status] = out.get(status, 0) + 1
        return out

    def degraded_count(self, since=None, until=None):
        return sum(self._statuses[row] >> 15 for row in self._rows(None, since, until))

    def last_time(self, statuses, names, since, until):
        """Time of the last reply that was degraded or had one of these statuses, or `since` if there is none."""
        return max((self._times[row] for row in self._rows(names, since, until)
                    if self._statuses[row] >> 15 or self._statuses[row] & 0x7fff in statuses), default=since)

    def _rows(self, names, since, until):
        indexes = {index for index, each in enumerate(OPERATIONS) if names is None or each.name in names}
        size = min(map(len, (self._times, self._latencies_s, self._operation_indexes, self._statuses)))
        return [row for row in range(size) if (since is None or self._times[row] >= since) and (until is None or self._times[row] < until)
                and self._operation_indexes[row] in indexes]

    # --- in the load's thread

    def _run(self):
        try:
            asyncio.run(self._run_clients())
        except BaseException as error:  # raised again in wait_for() and stop()
            self._crash = error

    async def _run_clients(self):
        weights = [each.weight for each in self._operations]

        async def client():
            pair = [Connection(self._host, port, source=self._source) for port in self._ports]
            try:
                while not self._stop.is_set():
                    operation = self.rng.choices(self._operations, weights)[0]
                    await self._perform(operation, self.rng.choice(self.readers), pair[operation.internal])
                    if self._think_s:
                        await asyncio.sleep(self._think_s * self.rng.uniform(0.5, 1.5))
            finally:
                for each in pair:
                    each.close()
        await asyncio.gather(*(client() for _ in range(self._connections)))

    async def _perform(self, operation, reader, connection):
        if operation.make_event is None:
            reply = await self._send(operation, reader, connection, operation.make(self, reader))
            allowed = self._allowed if operation.kind == READ else {200, 202, 429, 502, 503, 504}
            if (reply.status if reply else 0) not in allowed:
                self._add_failure(f"{operation.name} of {reader.id}: {reply or 'no reply'}")
            return
        article = reader.article if operation.name == "track" else reader.viewed_article
        event = self.ledger.new_event(operation.name, article)
        data, deadline = operation.make_event(self, reader, event), time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline:
            reply = await self._send(operation, reader, connection, data)
            if reply and reply.status in (200, 202):
                self.ledger.acknowledge(operation.name, article, event)
                if self.rng.random() >= self._repeat_share:
                    return
                self.ledger.repeated += 1
            elif reply and reply.status not in (429, 502, 503, 504):
                self._add_failure(f"{operation.name} of {reader.id}: {reply}")
                return
            else:
                await asyncio.sleep(RETRY_DELAY_S)

    async def _send(self, operation, reader, connection, data):
        began = time.monotonic()
        try:
            reply = await connection.exchange(data)
        except NoReply:
            reply = None
        now = time.monotonic()
        degraded = reply is not None and b"freshet-degraded" in reply.headers
        self._times.append(now)
        self._latencies_s.append(now - began)
        self._operation_indexes.append(OPERATIONS.index(operation))
        self._statuses.append((reply.status if reply else 0) | degraded << 15)
        self.requests += 1
        if reply is not None and reply.status in (200, 202):
            self._check(operation, reader, data, reply, degraded)
        elif reply is not None and (wrong := identities.foreign_names(reader, reply.body)):
            self._add_mixup(f"{operation.name} of {reader.id}: {wrong} in {reply}")
        return reply

    def _check(self, operation, reader, data, reply, degraded):
        wrong = "an unexpected format"
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            content = json.loads(reply.body)
            degraded = degraded or (isinstance(content, dict) and content.get("degraded") is True)
            wrong = operation.check(reader, content, degraded)
        if wrong is None and operation.name == "item" and not data.split(b" ", 2)[1].endswith(b"/" + content["id"].encode()):
            wrong = "another item than requested"
        if wrong is None and operation.name == "hot" and b"set-cookie" in reply.headers:
            wrong = "a cookie on a shared list"
        if wrong is not None:
            self._add_mixup(f"{operation.name} of {reader.id}: {wrong} in {reply}")

    def _add_mixup(self, text):
        self.mixed_up += 1
        if len(self.mixups) < MAX_EXAMPLES:
            self.mixups.append(text)

    def _add_failure(self, text):
        self.failed += 1
        if len(self.failures) < MAX_EXAMPLES:
            self.failures.append(text)
