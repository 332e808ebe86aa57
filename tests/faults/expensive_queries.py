"""A3: what a single reader asks to hurt the others, under the load of honest ones."""

import threading
import time

from dear import DEAR, put_items

from bench.procs import cpu_us
from faults.scenario import fault, percentile

ITEMS = 4000
RATE = 5  # requests a second: what limits.feed allows a reader
DEAR_CPU = 0.25  # of a core, what the workers may compute for the attacker: some 0.08 by what a search is charged, 1 and more without
HONEST = 60  # readers, each from a network of its own, with a refresh a second: less than their own searches are charged


class Refreshes(threading.Thread):
    """A reader's refreshes, one after the other, until stopped: (when it was answered, seconds, status, degraded)."""

    def __init__(self, service, reader, query=None, pause_s=1, **client):
        super().__init__(daemon=True)
        self.seen, self._client, self._pause_s, self._stop_now = [], service.public(**client), pause_s, threading.Event()
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


@fault("A3", "a reader asks the dearest queries beyond the limit", "others 0 x 503, p99 at most 2 x theirs alone")
def dear_queries(run):
    with run.instance(patient=True, limits=True) as service:
        put_items(service, ITEMS)
        others = [Refreshes(service, f"other-{number}", None if number % 3 else "item", source=f"127.1.{number}.1") for number in range(HONEST)]
        attackers = [Refreshes(service, "dear", DEAR, pause_s=2 / RATE) for _ in range(4)]  # at twice the rate
        span, workers = run.scale(4, 30), service.workers()
        for each in others:
            each.start()
        computed = [(time.monotonic(), cpu_us(workers))]
        time.sleep(span)  # the figures alone
        begun = time.monotonic()
        computed.append((begun, cpu_us(workers)))
        for each in attackers:
            each.start()
        time.sleep(span)  # and under the attack, until it is refused
        refused = time.monotonic() + 10 * span
        while time.monotonic() < refused and not any(row[2] == 429 for each in attackers for row in each.seen):
            time.sleep(0.05)
        computed.append((time.monotonic(), cpu_us(workers)))
        for each in attackers + others:
            each.stop()
        alone, under = [[row for each in others for row in each.seen if (row[0] >= begun) == attacked] for attacked in (False, True)]
        p99 = [percentile(sorted(row[1] for row in rows), 0.99) for rows in (alone, under)]
        dear = [row for each in attackers for row in each.seen]
        run.none("replies to others that are no 200", sum(row[2] != 200 for row in alone + under), [row for row in under if row[2] != 200])
        run.figure(f"{len(dear)} dear queries, {sum(row[3] for row in dear)} of them degraded, {sum(row[2] == 503 for row in dear)} x 503, {sum(row[2] == 429 for row in dear)} x 429")
        run.none("attackers that were never refused", int(not any(row[2] == 429 for row in dear)))
        cores = [(cpu - cpu_before) / 1e6 / (at - before) for (before, cpu_before), (at, cpu) in zip(computed, computed[1:])]
        run.figure(f"workers compute {cores[0]:.2f} of a core alone, {cores[1]:.2f} under it (at most {DEAR_CPU} more)", cores[1] - cores[0] <= DEAR_CPU, safety=True)
        run.figure(f"others' {len(under)} refreshes, {sum(row[3] for row in under)} degraded")
        run.at_most(f"others' p99 {1000 * p99[0]:.0f} ms alone, {1000 * p99[1]:.0f} ms under it:", p99[1] / p99[0], 2, "x")
