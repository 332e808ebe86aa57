"""The feed during a steady stream of item writes: every page is delivered and none is degraded.

FRESHET_LONG=1: 50,000 items and half a minute; otherwise a tenth of the items, and five seconds.
"""

import json
import os
import random
import threading
import time

from client import Load
from service import wait_until

LONG = os.environ.get("FRESHET_LONG") == "1"
ITEMS, PAGES, SECONDS = (50_000, 500, 30) if LONG else (5_000, 200, 5)
CONNECTIONS, WRITES_A_SECOND = 8, 25
WORDS = [f"word{i}" for i in range(5000)]


def make_item(rng, number, now):
    # skewed: some words are in most items, most words in few
    words = [WORDS[int(len(WORDS) * rng.random() ** 3)] for _ in range(90)]
    return {"id": f"i{number}", "title": " ".join(words[:8]), "text": " ".join(words[8:]), "tags": [f"tag{number % 50}"],
            "published_at": now - int(100 * 86400 * rng.random() ** 2)}


class ItemWriter:
    """PUTs an item every 1/25 s, alternately a new and an existing one, until the block ends."""

    def __init__(self, service, rng, now):
        self.written, self._stop = [], threading.Event()
        self._service, self._rng, self._now = service, rng, now
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        client, due, number = self._service.internal(), time.monotonic(), 0
        while not self._stop.wait(max(0, due - time.monotonic())):
            fresh = number % 2 == 0
            item = make_item(self._rng, ITEMS + number if fresh else self._rng.randrange(ITEMS), int(time.time()))
            if fresh:
                item["published_at"] = int(time.time())
            reply = client.put(f"/api/items/{item.pop('id')}", item)
            self.written.append(reply.status)
            number, due = number + 1, due + 1 / WRITES_A_SECOND

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(60)


def put_items(site, rng, now):
    client = site.internal()
    for first in range(0, ITEMS, 1000):
        lines = "\n".join(json.dumps(make_item(rng, number, now)) for number in range(first, first + 1000))
        reply = client.post("/api/items", lines, headers={"Content-Type": "application/x-ndjson"})
        assert reply.status == 200 and reply.json()["accepted"] == 1000, reply
    wait_until(lambda: site.status()["recorder items"] == ITEMS, "the items to be recorded", 300)


def test_every_page_is_complete_during_a_stream_of_writes(own_service, name):
    site = own_service
    rng, now = random.Random(12), int(time.time())
    put_items(site, rng, now)
    readers = [name("r") for _ in range(200)]
    for reader in readers[::2]:
        for _ in range(5):
            body = {"userId": reader, "topicId": f"i{rng.randrange(ITEMS)}", "kind": "like"}
            assert site.internal().post("/api/interactions", body).status == 200

    def page(client, turn):
        body = {"action": "refresh", "agent_id": readers[turn % len(readers)], "limit": 20}
        if turn % 3 == 0:
            body["query"] = f"{WORDS[turn % 50]} {WORDS[turn % 997]}"
        reply = client.post("/api/feed", body)
        return reply.status, reply.status == 200 and "degraded" in reply.json()["data"], reply.seconds

    began = time.monotonic()
    with ItemWriter(site, rng, now) as writer, Load(site.public, page, threads=CONNECTIONS) as load:
        wait_until(lambda: load.errors or (len(load.results) >= PAGES and time.monotonic() > began + SECONDS), "pages", 120)
    duration_s = time.monotonic() - began
    failed = [each for each in load.results if each[0] != 200]
    degraded = [each for each in load.results if each[1]]
    latencies_s = sorted(each[2] for each in load.results)
    print(f"{ITEMS} items, {len(writer.written) / duration_s:.1f} writes/s, {len(load.results) / duration_s:.1f} pages/s of {CONNECTIONS} connections: "
          f"{len(failed)} failed, {len(degraded)} degraded, p50 {latencies_s[len(latencies_s) // 2]:.3f} s, slowest {latencies_s[-1]:.3f} s")
    assert not load.errors, load.errors[:3]
    assert set(writer.written) == {200}
    assert (failed, degraded) == ([], [])
