"""A load of many readers whose every reply is judged, and whose every event is accounted for; in a thread with a loop of its own."""

import array
import asyncio
import contextlib
import json
import os
import random
import threading
import time

from faults import identities
from faults.accountant import Accountant, key_name
from faults.wire import Connection, Lost, request

AGAIN_S = 0.02             # a client that is told to come back
GIVE_UP_S = 45.0           # an event that is not acknowledged until then remains in doubt
REPEAT_SHARE = 0.03        # of acknowledged events, sent again as if the reply had been lost
FEED_EVENT_S = 50.0        # a page of the feed may be asked for again for a minute
MOST_NOTED = 20

READ, WRITE = "read", "write"


class Operation:
    """make(load, reader) → the bytes of a request; judge: of identities. Reads are asked once, events until they are acknowledged."""

    def __init__(self, name, kind, weight, judge, make=None, internal=False, event=None):
        self.name, self.kind, self.weight, self.judge = name, kind, weight, judge
        self.make, self.internal, self.event = make, internal, event


def _feed(load, reader):
    event = f"f{int(load.elapsed() / FEED_EVENT_S)}"
    return request("POST", "/api/feed", json.dumps({"action": "refresh", "limit": 2, "agent_id": reader.id, "query": reader.word,
                                                    "eventId": event}).encode())


def _look(load, reader):
    return request("POST", "/api/history", json.dumps({"userId": reader.id, "topicId": load.dice.choice(reader.viewed)}).encode())


def _track(load, reader, event):
    return request("POST", "/api/track", json.dumps({"articleId": reader.article, "dwellMs": reader.dwell_ms, "userId": reader.id,
                                                     "sessionId": f"s{event}", "eventId": event}).encode())


def _view(load, reader, event):
    return request("POST", "/api/views", json.dumps({"articleId": reader.viewed_article, "fingerprint": f"f{event}", "publishedAt": load.published_at,
                                                     "eventId": event}).encode())


OPERATIONS = [
    Operation("history", READ, 3, identities.judge_history, lambda load, reader: request("GET", f"/api/history?userId={reader.id}")),
    Operation("timeline", READ, 3, identities.judge_timeline, lambda load, reader: request(
        "GET", f"/api/waterfall/{identities.CHANNEL}?customerId={reader.id}&direction=first&limit={identities.PAGE}")),
    Operation("recommendations", READ, 1, identities.judge_recommendations, lambda load, reader: request(
        "GET", f"/api/recommendations?userId={reader.id}&limit=10")),
    Operation("feed", READ, 1, identities.judge_feed, _feed),
    Operation("hot", READ, 2, identities.judge_list, lambda load, reader: request(
        "GET", f"/api/hot?model=engagement&limit={reader.list_limit}")),
    Operation("item", READ, 2, identities.judge_item, lambda load, reader: request("GET", f"/api/items/{load.dice.choice(reader.items)}"), internal=True),
    Operation("stats", READ, 1, identities.judge_stats, lambda load, reader: request("GET", f"/api/articles/{reader.read_article}/stats"), internal=True),
    Operation("look", WRITE, 1, identities.judge_ok, _look),
    Operation("track", WRITE, 4, identities.judge_track, event=_track),
    Operation("view", WRITE, 1, identities.judge_ok, event=_view),
]
GETS = ("history", "timeline", "recommendations", "item", "stats")
LISTS = ("history", "timeline", "recommendations", "feed", "hot")  # what a page shows: served also while Redis is away (R4)


def _names(instance, readers):
    """Of the events in Redis' keys; of an instance that hashes nothing, as they are."""
    if not hasattr(instance, "state"):
        return ()
    with open(os.path.join(instance.state, "etc/salt"), "rb") as file:
        salt = file.read().rstrip(b"\r\n")
    visitors = {reader.article: "u" + key_name(salt, "reader", reader.id) for reader in readers}
    return (lambda kind, article, event: key_name(salt, "event", visitors[article], event) if kind == "track"
            else key_name(salt, "named event", f"f{event}", event),)


class Load:
    """only: names of operations. allowed: statuses that a read may have; any other, and a lost reply, is a failure. think_s: between two
    requests of a connection. source: the address it comes from. While it runs, everything is its thread's; the counts may be looked at."""

    def __init__(self, instance, readers, seed, connections=16, only=None, allowed=(200,), think_s=0.0, source=None):
        self.readers, self.dice = readers, random.Random(seed)
        self.accountant, self.published_at = Accountant(*_names(instance, readers)), int(time.time())
        self.failures, self.mixups = [], []  # texts, the first of them
        self.failed = self.mixed_up = self.requests = 0
        self._host, self._ports = instance.host, (instance.port, instance.internal_port)
        self._connections, self._allowed, self._think_s, self._source = connections, set(allowed), think_s, source
        self._operations = [each for each in OPERATIONS if only is None or each.name in only]
        self._when, self._seconds = array.array("d"), array.array("f")
        self._what, self._status = array.array("B"), array.array("H")  # index in OPERATIONS; 0: lost. Bit 15: degraded
        self._stop, self._pause = threading.Event(), threading.Event()
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
        assert not self._thread.is_alive(), "the load does not end"
        if self._crash:
            raise self._crash

    def elapsed(self):
        return time.monotonic() - self._began

    def wait_for(self, more, limit_s=60.0):
        """Until so many more requests were made."""
        target, deadline = self.requests + more, time.monotonic() + limit_s
        while self.requests < target:
            if self._crash:
                raise self._crash
            assert time.monotonic() < deadline, f"the load made {self.requests} of {target} requests: {self.failures}"
            time.sleep(0.005)

    # --- what it saw

    def seconds(self, names=None, since=None, until=None, statuses=None):
        """Sorted times of replies to these operations, by the moment (time.monotonic) they came."""
        wanted = {at for at, each in enumerate(OPERATIONS) if names is None or each.name in names}
        return sorted(self._seconds[at] for at in self._rows(since, until)
                      if self._what[at] in wanted and (statuses is None or self._status[at] & 0x7fff in statuses))

    def statuses(self, names=None, since=None, until=None):
        """status (0: lost) → how many."""
        wanted = {at for at, each in enumerate(OPERATIONS) if names is None or each.name in names}
        out = {}
        for at in self._rows(since, until):
            if self._what[at] in wanted:
                status = self._status[at] & 0x7fff
                out[status] = out.get(status, 0) + 1
        return out

    def degraded(self, since=None, until=None):
        return sum(self._status[at] >> 15 for at in self._rows(since, until))

    def last_of(self, statuses, names, since, until):
        """When the last reply came that was degraded or had one of these statuses; `since`: none did."""
        wanted = {at for at, each in enumerate(OPERATIONS) if names is None or each.name in names}
        return max((self._when[at] for at in self._rows(since, until)
                    if self._what[at] in wanted and (self._status[at] >> 15 or self._status[at] & 0x7fff in statuses)), default=since)

    def _rows(self, since, until):
        size = min(map(len, (self._when, self._seconds, self._what, self._status)))
        return [at for at in range(size) if (since is None or self._when[at] >= since) and (until is None or self._when[at] < until)]

    # --- in the thread

    def _run(self):
        try:
            asyncio.run(self._all())
        except BaseException as error:  # the scenario must hear of it
            self._crash = error

    async def _all(self):
        weights = [each.weight for each in self._operations]

        async def client():
            pair = [Connection(self._host, port, source=self._source) for port in self._ports]
            try:
                while not self._stop.is_set():
                    operation = self.dice.choices(self._operations, weights)[0]
                    await self._do(operation, self.dice.choice(self.readers), pair[operation.internal])
                    if self._think_s:
                        await asyncio.sleep(self._think_s * self.dice.uniform(0.5, 1.5))
            finally:
                for each in pair:
                    each.close()
        await asyncio.gather(*(client() for _ in range(self._connections)))

    async def _do(self, operation, reader, connection):
        if operation.event is None:
            reply = await self._ask(operation, reader, connection, operation.make(self, reader))
            allowed = self._allowed if operation.kind == READ else {200, 202, 429, 502, 503, 504}
            if (reply.status if reply else 0) not in allowed:
                self._note("failure", f"{operation.name} of {reader.id}: {reply or 'lost'}")
            return
        event = self.accountant.new(operation.name, reader.article if operation.name == "track" else reader.viewed_article)
        article = reader.article if operation.name == "track" else reader.viewed_article
        data, deadline = operation.event(self, reader, event), time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline:
            reply = await self._ask(operation, reader, connection, data)
            if reply and reply.status in (200, 202):
                self.accountant.acknowledge(operation.name, article, event)
                if self.dice.random() >= REPEAT_SHARE:
                    return
                self.accountant.repeated += 1
            elif reply and reply.status not in (429, 502, 503, 504):
                self._note("failure", f"{operation.name} of {reader.id}: {reply}")
                return
            else:
                await asyncio.sleep(AGAIN_S)

    async def _ask(self, operation, reader, connection, data):
        began = time.monotonic()
        try:
            reply = await connection.ask(data)
        except Lost:
            reply = None
        now = time.monotonic()
        degraded = reply is not None and b"freshet-degraded" in reply.headers
        self._when.append(now)
        self._seconds.append(now - began)
        self._what.append(OPERATIONS.index(operation))
        self._status.append((reply.status if reply else 0) | degraded << 15)
        self.requests += 1
        if reply is not None and reply.status in (200, 202):
            self._judge(operation, reader, data, reply, degraded)
        elif reply is not None and (wrong := identities.foreign_names(reader, reply.body)):
            self._note("mixup", f"{operation.name} of {reader.id}: {wrong} in {reply}")
        return reply

    def _judge(self, operation, reader, data, reply, degraded):
        wrong = "no reply of this kind"
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            got = json.loads(reply.body)
            degraded = degraded or (isinstance(got, dict) and got.get("degraded") is True)
            wrong = operation.judge(reader, got, degraded)
        if wrong is None and operation.name == "item" and not data.split(b" ", 2)[1].endswith(b"/" + got["id"].encode()):
            wrong = "another item than was asked for"
        if wrong is None and operation.name == "hot" and b"set-cookie" in reply.headers:
            wrong = "a cookie on a list that everybody shares"
        if wrong is not None:
            self._note("mixup", f"{operation.name} of {reader.id}: {wrong} in {reply}")

    def _note(self, what, text):
        texts = self.mixups if what == "mixup" else self.failures
        if what == "mixup":
            self.mixed_up += 1
        else:
            self.failed += 1
        if len(texts) < MOST_NOTED:
            texts.append(text)
