"""A3: what anonymous clients and single readers send to hurt the others, under the load of honest ones."""

import json
import threading
import time

from service import wait_until

from faults.scenario import fault, percentile

ITEMS = 4000
RATE = 5  # requests a second: what limits.feed allows a reader
# Frequent words that never stand side by side: a phrase of them is looked for in every item, and found in none.
WORDS = [f"word{number}" for number in range(12)]
TEXT = " filler ".join(WORDS * 25)
DEAR = " ".join(f'"{" ".join(WORDS[at:] + WORDS[:at])}"' for at in range(len(WORDS)))[:512]


class Refreshes(threading.Thread):
    """A reader's refreshes, one after the other, until stopped: (when it was answered, seconds, status, degraded)."""

    def __init__(self, service, reader, query=None, pause_s=0.02):
        super().__init__(daemon=True)
        self.seen, self._client, self._pause_s, self._stop_now = [], service.public(), pause_s, threading.Event()
        self._body = {"action": "refresh", "agent_id": reader, "limit": 5} | ({"query": query} if query else {})

    def run(self):
        while not self._stop_now.is_set():
            began = time.monotonic()
            reply = self._client.post("/api/feed", self._body)
            now = time.monotonic()
            self.seen.append((now, now - began, reply.status, b'"degraded":true' in reply.body))
            self._stop_now.wait(self._pause_s)

    def stop(self):
        self._stop_now.set()
        self.join(60)


def put_items(service):
    now = int(time.time())
    lines = [json.dumps({"id": f"dear-{number}", "title": f"item {number}", "text": TEXT, "published_at": now - 60 * number}) for number in range(ITEMS)]
    for at in range(0, ITEMS, 500):
        batch = lines[at:at + 500]
        assert service.internal().post("/api/items", "\n".join(batch)).json()["accepted"] == len(batch)
    wait_until(lambda: service.status()["recorder items"] >= ITEMS and service.status()["recorder lag entries"] == 0, "the items to be indexed", 120)


@fault("A3", "a reader asks the dearest queries at the rate of the limit", "others 0 x 503, p99 at most 2 x theirs alone")
def dear_queries(run):
    with run.instance(patient=True) as service:
        put_items(service)
        others = [Refreshes(service, f"other-{number}", "item" if number == 0 else None) for number in range(3)]
        attackers = [Refreshes(service, "dear", DEAR, pause_s=4 / RATE) for _ in range(4)]
        span = run.scale(6, 30)
        for each in others:
            each.start()
        time.sleep(span)  # the figures alone
        begun = time.monotonic()
        for each in attackers:
            each.start()
        time.sleep(span)  # and under the attack
        for each in attackers + others:
            each.stop()
        alone, under = [[row for each in others for row in each.seen if (row[0] >= begun) == attacked] for attacked in (False, True)]
        p99 = [percentile(sorted(row[1] for row in rows), 0.99) for rows in (alone, under)]
        dear = [row for each in attackers for row in each.seen]
        run.none("replies to others that are no 200", sum(row[2] != 200 for row in alone + under), [row for row in under if row[2] != 200])
        run.figure(f"{len(dear)} dear queries, {sum(row[3] for row in dear)} of them degraded, {sum(row[2] == 503 for row in dear)} x 503")
        run.figure(f"others' {len(under)} refreshes, {sum(row[3] for row in under)} degraded")
        run.at_most(f"others' p99 {1000 * p99[0]:.0f} ms alone, {1000 * p99[1]:.0f} ms under it:", p99[1] / p99[0], 2, "x")
