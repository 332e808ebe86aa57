#!/usr/bin/python3
"""What one anonymous request of each public operation can cost: measured, and printed as the table of SECURITY.md.

    tests/e2e/costs.py [REQUESTS]      writes the table into SECURITY.md, from so many requests of each (500)

Every name that the client may choose is new and as long as allowed, the article is one that the site never put, and there are no limits.
Bytes of Redis are those of the keys that were made or grew; the append-only file has its own until it is rewritten."""

import collections
import json
import os
import re
import sys
import time

from service import PATIENT, ROOT, Instance, wait_until

SECURITY = os.path.join(ROOT, "SECURITY.md")
BEGIN, END = "<!-- by tests/e2e/costs.py -->", "<!-- end -->"
ITEMS = 600  # more than a reader's buffer holds
DAY = 86400
KEYS = """local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  out[#out + 1] = {key, redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 50), redis.call('TTL', key)}
end
return cjson.encode(out)"""

Operation = collections.namedtuple("Operation", "name what bucket ask")
Cost = collections.namedtuple("Cost", "bytes kept_s aof worker_us redis_us")


def long_id(kind, number):
    return f"{kind}{number}-".ljust(128, "x")


def ask(method, path, body=None):
    """A request from a pattern: N is its number, and {kind} a name that is new."""

    def filled(value, number):
        return re.sub(r"\{(\w+)\}", lambda match: long_id(match[1], number), value).replace("#", str(number)) if isinstance(value, str) else value

    def send(client, number):
        members = body and {key: filled(value, number) for key, value in body.items()}
        return client.ask(method, filled(path, number), members)

    return send


NOW = int(time.time())
TRACK = {"articleId": "{a}", "userId": "{u}", "sessionId": "{s}", "fingerprint": "{f}", "eventId": "{e}", "dwellMs": 30000}
HISTORY = {"userId": "{u}", "topicId": "{t}", "eventId": "{e}"}
OPERATIONS = [
    Operation("track", "`POST /api/track`, of an unknown article", "track", ask("POST", "/api/track", TRACK)),
    Operation("track", "`POST /api/track`, of a known one", "track", ask("POST", "/api/track", TRACK | {"articleId": "item-1"})),
    Operation("view", "`POST /api/views`, of an unknown article", "views",
              ask("POST", "/api/views", {"articleId": "{b}", "fingerprint": "{f}", "eventId": "{e}", "publishedAt": NOW})),
    Operation("visitor", "`POST /api/visitor`", None, ask("POST", "/api/visitor")),
    Operation("hot", "`GET /api/hot`, past nginx's cache", None, ask("GET", "/api/hot?model=engagement&limit=100&x=#")),
    Operation("hot", "`GET /api/hot?at=`", "hot", ask("GET", f"/api/hot?model=engagement&limit=100&at={NOW + DAY}&x=#")),
    Operation("feed", "`POST /api/feed`, refresh", "feed", ask("POST", "/api/feed", {"action": "refresh", "agent_id": "{g}", "limit": 100, "eventId": "{e}"})),
    Operation("feed", "`POST /api/feed`, load_more", "feed", ask("POST", "/api/feed", {"action": "load_more", "agent_id": "{g}", "limit": 100})),
    Operation("feed", "`POST /api/feed`, peek", "feed", ask("POST", "/api/feed", {"action": "peek", "agent_id": "{p}"})),
    Operation("look", "`POST /api/history`", "history", ask("POST", "/api/history", HISTORY)),
    Operation("history", "`GET /api/history`", "history", ask("GET", "/api/history?userId={u}")),
    Operation("clearHistory", "`DELETE /api/history`", "history", ask("DELETE", "/api/history?userId={v}&kind=topic")),
    Operation("dismiss", "`POST /api/feedback`", "feedback", ask("POST", "/api/feedback", HISTORY | {"kind": "not_interested", "userId": "{d}"})),
    Operation("undismiss", "`DELETE /api/feedback`", "feedback", ask("DELETE", "/api/feedback?userId={w}&topicId={t}")),
    Operation("recommendations", "`GET /api/recommendations`", "recommendations", ask("GET", "/api/recommendations?userId={r}&limit=100")),
    Operation("similar", "`GET /api/items/{id}/similar`", "recommendations", ask("GET", "/api/items/item-#/similar?limit=100")),
    Operation("timeline", "`GET /api/waterfall/{channel}`", "waterfall", ask("GET", "/api/waterfall/discover?customerId={c}&limit=100")),
    Operation("follows", "`GET /api/follows`", "waterfall", ask("GET", "/api/follows?follower={c}")),
]


class Site:
    """An instance with items, and what it has used so far."""

    def __init__(self):
        self.service = Instance("--no-limits", items__unknown='"count"', **PATIENT, **{f"limits__{each}_rate": "0" for each in sorted({each.bucket for each in OPERATIONS} - {None})}).start()
        lines = [json.dumps({"id": f"item-{number}", "title": f"About {number}", "tags": ["news"], "published_at": NOW - 60 * number}) for number in range(ITEMS)]
        reply = self.service.internal().post("/api/items", "\n".join(lines))
        assert reply.status == 200 and reply.json()["accepted"] == ITEMS, reply
        self.service.internal().track("item-1", 1)
        wait_until(lambda: self.service.status()["recorder items"] >= ITEMS, "the items to be indexed", 60)
        self._client, self._asked = self.service.public(), 0

    def _keys(self):
        return {key: (size, ttl) for key, size, ttl in json.loads(self.service.redis("EVAL", KEYS, 0))}

    def _cpu_ns(self, pids):
        total = 0
        for pid in pids:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                    total += int(file.read().split()[0])
        return total

    def _used(self):
        return (int(self.service.persistence("aof_current_size")), self._cpu_ns(self.service.workers()), self._cpu_ns([self.service.pid("redis")]))

    def _settle(self):
        """What is written behind replies is written."""
        self.service.await_placed()
        seen = None
        while seen != (seen := (self._sizes(), self.service.status()["recorder lag entries"])):
            time.sleep(0.6)

    def _sizes(self):
        """Of all keys but what the service renews by itself."""
        return {key: size for key, (size, _) in self._keys().items() if key not in ("recorder:lease", "hot:rank:turn")}

    def cost(self, operation, requests):
        operation.ask(self._client, 0)  # what the first one of all makes is no part of it
        # A network makes a hundred articles a day.
        clients = [self.service.public(source=f"127.{60 + self._asked}.{network}.1") for network in range(1 + requests // 50)]
        self._asked += 1
        self._settle()
        keys, before = self._keys(), self._used()
        for number in range(1, requests + 1):
            reply = operation.ask(clients[number // 50], number)
            assert reply.status < 300, (operation.what, reply)
        self._settle()
        used, now = self._used(), self._keys()
        aof, worker, redis = ((after - begin) / requests for after, begin in zip(used, before))
        grown = sum(size for size, _ in now.values()) - sum(size for size, _ in keys.values())
        lasting = [ttl for key, (_, ttl) in now.items() if key not in keys]
        assert -1 not in lasting, f"{operation.what} makes a key without an end"
        return Cost(grown / requests, max(lasting, default=0), aof, worker / 1000, redis / 1000)

    def stop(self):
        self.service.stop()


def span(seconds):
    for name, length in (("d", DAY), ("h", 3600), ("min", 60)):
        if seconds > 0.99 * length:
            return f"{round(seconds / length)} {name}"
    return f"{seconds:.0f} s" if seconds else "—"


def row(operation, cost):
    bucket = f"`limits.{operation.bucket}_rate`" if operation.bucket else "nginx' rate of an address"
    if "unknown" in operation.what:
        bucket += ", 100 a day of a network"
    return (f"| {operation.what} | {max(0, cost.bytes):,.0f} | {span(cost.kept_s)} | {cost.aof:,.0f} | {cost.worker_us:,.0f} + {cost.redis_us:,.0f} | {bucket} |")


def written_bytes():
    """{what: (bytes of Redis, of the append-only file)} as SECURITY.md says."""
    with open(SECURITY, encoding="utf-8") as file:
        table = file.read().split(BEGIN)[1].split(END)[0]
    cells = [[cell.strip() for cell in line.split(" | ")] for line in table.splitlines() if line.startswith("| `")]
    return {each[0].removeprefix("| "): tuple(int(each[at].replace(",", "")) for at in (1, 3)) for each in cells}


def main(requests):
    site = Site()
    try:
        rows = [row(operation, site.cost(operation, requests)) for operation in OPERATIONS]
    finally:
        site.stop()
    head = ["| anonymous request | bytes of Redis | kept for | bytes of the AOF | µs of CPU, worker + Redis | bounded by |", "|---|---|---|---|---|---|"]
    with open(SECURITY, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    with open(SECURITY, "w", encoding="utf-8") as file:
        file.write(before + "\n".join([BEGIN, *head, *rows, END]) + rest.split(END)[1])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
