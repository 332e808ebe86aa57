#!/usr/bin/python3
"""Measures the maximum cost of one anonymous request to each public operation, and writes the table of SECURITY.md.

    tests/e2e/costs.py [REQUESTS]      measures each operation with this many requests (500)

Every client-chosen name is new and has the maximum length, the article was never PUT, and there are no rate limits.
"Bytes of Redis" counts keys that were created or grew; the append-only file has a column of its own because it keeps
every write until it is rewritten.
"""

import collections
import json
import os
import re
import sys
import time

from service import LONG_TIMEOUTS, ROOT, Instance, wait_until

SECURITY = os.path.join(ROOT, "SECURITY.md")
BEGIN, END = "<!-- by tests/e2e/costs.py -->", "<!-- end -->"
ITEMS = 600  # more than a reader's feed buffer holds
DAY = 86400
KEYS = """local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  out[#out + 1] = {key, redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 50), redis.call('TTL', key)}
end
return cjson.encode(out)"""
# Number and bytes of all keys, without those that the service renews periodically.
SIZE = """local count, bytes = 0, 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  if key ~= 'recorder:lease' and key ~= 'hot:rank:turn' then
    count, bytes = count + 1, bytes + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 50)
  end
end
return {count, bytes}"""

Operation = collections.namedtuple("Operation", "name label bucket send")
Cost = collections.namedtuple("Cost", "bytes ttl_s aof worker_us redis_us")


def long_id(kind, number):
    return f"{kind}{number}-".ljust(512, "x")


def sender(method, path, body=None):
    """Makes a sender from a pattern: `#` is the request's number, and `{kind}` a new name."""

    def filled(value, number):
        return re.sub(r"\{(\w+)\}", lambda match: long_id(match[1], number), value).replace("#", str(number)) if isinstance(value, str) else value

    def send(client, number):
        members = body and {key: filled(value, number) for key, value in body.items()}
        return client.request(method, filled(path, number), members)

    return send


def visitor_sender(method, path):
    """Sends each request with the cookie of a new visitor, which costs as much as `POST /api/visitor` in addition."""

    def send(client, _):
        cookie = client.post("/api/visitor", None).headers["Set-Cookie"].split(";")[0]
        return client.request(method, path, headers={"Cookie": cookie})

    return send


NOW = int(time.time())
TRACK = {"articleId": "{a}", "userId": "{u}", "sessionId": "{s}", "fingerprint": "{f}", "eventId": "{e}", "dwellMs": 30000}
HISTORY = {"userId": "{h}", "topicId": "{t}", "eventId": "{e}"}
OPERATIONS = [
    Operation("track", "`POST /api/track`, unknown article", "track", sender("POST", "/api/track", TRACK)),
    Operation("track", "`POST /api/track`, known article", "track", sender("POST", "/api/track", TRACK | {"articleId": "item-1"})),
    Operation("view", "`POST /api/views`, unknown article", "views",
              sender("POST", "/api/views", {"articleId": "{b}", "fingerprint": "{f}", "eventId": "{e}", "publishedAt": NOW})),
    Operation("pixel", "`GET /api/track.gif`, unknown article", "track", sender("GET", "/api/track.gif?articleId={p}")),
    Operation("pixel", "`GET /api/track.gif`, known article", "track", sender("GET", "/api/track.gif?articleId=item-#")),
    Operation("visitor", "`POST /api/visitor`", None, sender("POST", "/api/visitor")),
    Operation("exportVisitor", "`GET /api/visitor/export`", "history", visitor_sender("GET", "/api/visitor/export")),
    Operation("eraseVisitor", "`DELETE /api/visitor`", "history", visitor_sender("DELETE", "/api/visitor")),
    Operation("hot", "`GET /api/hot`, not cached by nginx", None, sender("GET", "/api/hot?model=engagement&limit=100&x=#")),
    Operation("hot", "`GET /api/hot?at=`", "hot", sender("GET", f"/api/hot?model=engagement&limit=100&at={NOW + DAY}&x=#")),
    Operation("feed", "`POST /api/feed`, refresh", "feed", sender("POST", "/api/feed", {"action": "refresh", "agent_id": "{g}", "limit": 100, "eventId": "{e}"})),
    Operation("feed", "`POST /api/feed`, load_more", "feed", sender("POST", "/api/feed", {"action": "load_more", "agent_id": "{g}", "limit": 100})),
    Operation("feed", "`POST /api/feed`, peek", "feed", sender("POST", "/api/feed", {"action": "peek", "agent_id": "{p}"})),
    Operation("look", "`POST /api/history`", "history", sender("POST", "/api/history", HISTORY)),
    Operation("history", "`GET /api/history`", "history", sender("GET", "/api/history?userId={h}")),
    Operation("clearHistory", "`DELETE /api/history`", "history", sender("DELETE", "/api/history?userId={v}&kind=topic")),
    Operation("dismiss", "`POST /api/feedback`", "feedback", sender("POST", "/api/feedback", HISTORY | {"kind": "not_interested", "userId": "{d}"})),
    Operation("undismiss", "`DELETE /api/feedback`", "feedback", sender("DELETE", "/api/feedback?userId={w}&topicId={t}")),
    Operation("recommendations", "`GET /api/recommendations`", "recommendations", sender("GET", "/api/recommendations?userId={r}&limit=100")),
    Operation("similar", "`GET /api/items/{id}/similar`", "recommendations", sender("GET", "/api/items/item-#/similar?limit=100")),
    Operation("timeline", "`GET /api/waterfall/{channel}`", "waterfall", sender("GET", "/api/waterfall/discover?customerId={c}&limit=100")),
    Operation("follows", "`GET /api/follows`", "waterfall", sender("GET", "/api/follows?follower={c}")),
]


class Site:
    """An instance with items, and the resources it has used so far."""

    def __init__(self):
        self.service = Instance("--no-limits", items__unknown='"count"', track__pixel="true", **LONG_TIMEOUTS, **{f"limits__{each}_rate": "0" for each in sorted({each.bucket for each in OPERATIONS} - {None})}).start()
        lines = [json.dumps({"id": f"item-{number}", "title": f"About {number}", "tags": ["news"], "published_at": NOW - 60 * number}) for number in range(ITEMS)]
        reply = self.service.internal().post("/api/items", "\n".join(lines))
        assert reply.status == 200 and reply.json()["accepted"] == ITEMS, reply
        self.service.internal().track("item-1", 1)
        wait_until(lambda: self.service.status()["recorder items"] >= ITEMS, "the items to be indexed", 60)
        self._client, self._rounds = self.service.public(), 0

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

    def _wait_until_idle(self):
        """Waits until asynchronous writes have finished."""
        self.service.wait_for_background_writes()
        previous = None
        while previous != (previous := (self.service.redis("EVAL", SIZE, 0), self.service.status()["recorder lag entries"])):
            time.sleep(0.6)

    def cost(self, operation, requests):
        operation.send(self._client, 0)  # the first request creates shared keys, which are not counted
        # One network may create a hundred articles a day.
        clients = [self.service.public(source=f"127.{60 + self._rounds}.{network}.1") for network in range(1 + requests // 50)]
        self._rounds += 1
        self._wait_until_idle()
        keys, before = self._keys(), self._used()
        for number in range(1, requests + 1):
            reply = operation.send(clients[number // 50], number)
            assert reply.status < 300, (operation.label, reply)
        self._wait_until_idle()
        used, now = self._used(), self._keys()
        aof, worker, redis = ((after - begin) / requests for after, begin in zip(used, before))
        grown = sum(size for size, _ in now.values()) - sum(size for size, _ in keys.values())
        lasting = [ttl for key, (_, ttl) in now.items() if key not in keys]
        assert -1 not in lasting, f"{operation.label} creates a key without a TTL"
        return Cost(grown / requests, max(lasting, default=0), aof, worker / 1000, redis / 1000)

    def stop(self):
        self.service.stop()


def format_duration(seconds):
    for name, length in (("d", DAY), ("h", 3600), ("min", 60)):
        if seconds > 0.99 * length:
            return f"{round(seconds / length)} {name}"
    return f"{seconds:.0f} s" if seconds else "—"


def row(operation, cost):
    bucket = f"`limits.{operation.bucket}_rate`" if operation.bucket else "nginx's rate limits per address and network"
    if "unknown" in operation.label:
        bucket += ", 100 articles per network and day"
    if operation.name == "eraseVisitor":
        bucket += ", `limits.anonymous_per_network`"
    if operation.name in ("track", "view", "look", "dismiss"):
        bucket += ", event ids of a network"
    return (f"| {operation.label} | {max(0, cost.bytes):,.0f} | {format_duration(cost.ttl_s)} | {cost.aof:,.0f} | {cost.worker_us:,.0f} + {cost.redis_us:,.0f} | {bucket} |")


def documented_bytes():
    """{label: (bytes in Redis, bytes in the append-only file)} as documented in SECURITY.md."""
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
    head = ["| anonymous request | Redis bytes | kept for | AOF bytes | CPU µs, worker + Redis | limited by |", "|---|---|---|---|---|---|"]
    with open(SECURITY, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    with open(SECURITY, "w", encoding="utf-8") as file:
        file.write(before + "\n".join([BEGIN, *head, *rows, END]) + rest.split(END)[1])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
