"""A3: one reader sends expensive queries while honest readers use the service."""

import json
import threading
import time

from expensive_search import EXPENSIVE_QUERY, put_items

from bench.procs import cpu_us
from faults.scenario import fault, percentile

ITEMS = 4000
RATE = 5  # requests per second that limits.feed allows a reader
MAX_EXTRA_CPU = 0.25  # cores that the workers may spend on the attacker: 0.08 with search costs charged, above 1 without
HONEST = 60  # readers in distinct networks, each with one refresh per second, which is below their quotas
INTERESTS = 10  # of each honest reader


class Refreshes(threading.Thread):
    """Refreshes of one reader, one at a time, until stopped. `results` holds (time of the reply, latency in s, status,
    degraded).
    """

    def __init__(self, service, reader, query=None, pause_s=1, **client):
        super().__init__(daemon=True)
        self.results, self._client, self._pause_s, self._stop_now = [], service.public(**client), pause_s, threading.Event()
        self._body = {"action": "refresh", "agent_id": reader, "limit": 5} | ({"query": query} if query else {})

    def run(self):
        while not self._stop_now.is_set():
            began = time.monotonic()
            reply = self._client.post("/api/feed", self._body)
            now = time.monotonic()
            self.results.append((now, now - began, reply.status, b'"degraded":true' in reply.body))
            self._stop_now.wait(self._pause_s)

    def stop(self):
        self._stop_now.set()
        self.join(60)


@fault("A3", "a reader sends the most expensive queries at twice the rate limit", "others 0 × 503, p99 ≤ 2 × alone")
def expensive_queries(run):
    with run.instance(long_timeouts=True, limits=True) as service:
        put_items(service, ITEMS)
        likes = [{"userId": f"other-{number}", "topicId": f"expensive-{(97 * number + 13 * each) % ITEMS}", "kind": "like"} for number in range(HONEST) for each in range(INTERESTS)]
        assert service.internal().post("/api/interactions", "\n".join(map(json.dumps, likes))).json()["accepted"] == len(likes)
        others = [Refreshes(service, f"other-{number}", None if number % 3 else "item", source=f"127.1.{number}.1") for number in range(HONEST)]
        attackers = [Refreshes(service, "attacker", EXPENSIVE_QUERY, pause_s=2 / RATE) for _ in range(4)]  # together 2 × RATE
        span_s, workers = run.scale(4, 30), service.workers()
        for each in others:
            each.start()
        cpu_samples = [(time.monotonic(), cpu_us(workers))]
        time.sleep(span_s)  # baseline
        attack_began = time.monotonic()
        cpu_samples.append((attack_began, cpu_us(workers)))
        for each in attackers:
            each.start()
        time.sleep(span_s)  # the attack; then wait until it is rate-limited
        deadline = time.monotonic() + 10 * span_s
        while time.monotonic() < deadline and not any(row[2] == 429 for each in attackers for row in each.results):
            time.sleep(0.05)
        cpu_samples.append((time.monotonic(), cpu_us(workers)))
        for each in attackers + others:
            each.stop()
        alone, attacked = [[row for each in others for row in each.results if (row[0] >= attack_began) == later] for later in (False, True)]
        p99 = [percentile(sorted(row[1] for row in rows), 0.99) for rows in (alone, attacked)]
        attacks = [row for each in attackers for row in each.results]
        run.expect_none("replies to others without a 200", sum(row[2] != 200 for row in alone + attacked), [row for row in attacked if row[2] != 200])
        run.report(f"{len(attacks)} expensive queries, {sum(row[3] for row in attacks)} degraded, {sum(row[2] == 503 for row in attacks)} × 503, "
                   f"{sum(row[2] == 429 for row in attacks)} × 429")
        run.expect_none("attackers never rate-limited", int(not any(row[2] == 429 for row in attacks)))
        cores = [(cpu - cpu_before) / 1e6 / (at - before) for (before, cpu_before), (at, cpu) in zip(cpu_samples, cpu_samples[1:])]
        run.report(f"workers use {cores[0]:.2f} cores alone, {cores[1]:.2f} during the attack (at most {MAX_EXTRA_CPU} more)",
                   cores[1] - cores[0] <= MAX_EXTRA_CPU, safety=True)
        run.report(f"others: {len(attacked)} refreshes, {sum(row[3] for row in attacked)} degraded")
        run.expect_at_most(f"others' p99 {1000 * p99[0]:.0f} ms alone, {1000 * p99[1]:.0f} ms during the attack:", p99[1] / p99[0], 2, "×")
