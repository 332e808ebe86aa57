"""A1 to A8: what strangers send to poison lists, to fill Redis or to shut others out, beside honest readers within their limits."""

import contextlib
import itertools
import json
import resource
import threading
import time

from client import AGENT
from service import wait_until

from faults.clients import SlowClients
from faults.scenario import fault, percentile

READERS = 8  # honest ones, each from a network of its own
PAUSE_S = 0.3  # between two of a reader's three requests, so that nobody meets a limit
LONGEST_ID = 128


class Honest(threading.Thread):
    """A reader who reports an article, reads the list and refreshes the feed, again and again: (when it was answered, seconds, status)."""

    def __init__(self, service, number, article):
        super().__init__(daemon=True)
        self.seen, self.lost, self.counted = [], [], 0
        self._client, self._name, self._article, self._stop_now = service.public(source=f"127.1.{number}.1"), f"honest-{number}", article, threading.Event()

    def run(self):
        for turn in itertools.count():
            report = {"articleId": self._article, "dwellMs": 1000, "userId": self._name, "sessionId": f"{self._name}-{turn}"}
            for method, path, body in (("POST", "/api/track", report), ("GET", "/api/hot?model=engagement", None),
                                       ("POST", "/api/feed", {"action": "refresh", "agent_id": self._name, "limit": 5})):
                began = time.monotonic()
                try:
                    status = self._client.ask(method, path, body).status
                except OSError as error:
                    self.lost.append(repr(error))
                    continue
                self.seen.append((time.monotonic(), time.monotonic() - began, status))
                self.counted += path == "/api/track" and status in (200, 202)
                if self._stop_now.wait(PAUSE_S):
                    return

    def stop(self):
        self._stop_now.set()
        self.join(60)


class Attackers:
    """Threads that call `send(client, number)` without a pause, each from the address that `source` gives it, until the block ends."""

    def __init__(self, service, send, source, threads=4):
        self.statuses, self._stop, self._lock = {}, threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(service, send, source, number), daemon=True) for number in range(threads)]

    def _run(self, service, send, source, first):
        clients = {}
        for number in itertools.count(first, len(self._threads)):
            if self._stop.is_set():
                return
            where = source(number)
            client = clients.setdefault(where, service.public(source=where))
            status = send(client, number).status
            with self._lock:
                self.statuses[status] = self.statuses.get(status, 0) + 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def __str__(self):
        return f"{sum(self.statuses.values()):,} attacks answered " + ", ".join(f"{count:,} x {status}" for status, count in sorted(self.statuses.items()))


@contextlib.contextmanager
def honest(run, service, fine=(200,)):
    """Honest readers alone for a while, then beside the block: their figures, that all were served, and that each report counted once."""
    article = "honest-article"
    service.put(article)
    readers = [Honest(service, number, article) for number in range(READERS)]
    for each in readers:
        each.start()
    time.sleep(run.scale(3, 15))
    began = time.monotonic()
    yield
    for each in readers:
        each.stop()
    rows = [row for each in readers for row in each.seen]
    alone, under = [sorted(row[1] for row in rows if (row[0] >= began) == attacked) for attacked in (False, True)]
    bad = [row for row in rows if row[2] not in fine]
    run.none("honest requests refused or lost", len(bad) + sum(len(each.lost) for each in readers), [*bad, *(text for each in readers for text in each.lost)])
    before, beside = [1000 * percentile(each, 0.99) for each in (alone, under)]
    run.at_most(f"honest p99 {before:.0f} ms alone, {beside:.0f} ms beside {len(under)} of theirs:", beside / max(before, 10), 2, "x")
    counted = sum(each.counted for each in readers)
    wait_until(lambda: service.status()["spooled bytes"] == 0, "what waits to be counted", 60)
    run.none("honest reports lost or counted twice", abs(service.stats(article)["pv"] - counted))


def until(run):
    time.sleep(run.scale(4, 30))


@fault("A1", "780 bodies that dribble, from seven addresses of a network", "honest readers elsewhere 0 refused, p99 at most 2 x theirs alone")
def slow_bodies(run):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with run.instance(patient=True, limits=True) as service, honest(run, service):
        with SlowClients((service.host, service.port), None, 780, 0, 0, [f"127.66.0.{number}" for number in range(2, 9)]) as slow:
            until(run)
        run.figure(f"{slow.open} slow bodies came, {slow.dropped} were dropped")


@fault("A2", "shared sessions, repeated events and new names at every request", "every key has an end, or a cap: freshetctl check")
def endless_keys(run):
    def send(client, number):
        agent, session = {"User-Agent": f"{AGENT} {number % 40}"}, f"shared-{number % 7}"
        if number % 3 == 0:
            body = {"articleId": f"made-{number % 50}", "fingerprint": f"f{number % 11}", "publishedAt": int(time.time()), "eventId": f"event-of-somebody-{number % 13}"}
            return client.ask("POST", "/api/views", body, headers=agent)
        body = {"articleId": f"made-{number % 50}", "sessionId": session, "dwellMs": number % 3 * 1000, "eventId": f"event-of-somebody-{number % 17}"}
        return client.ask("POST", "/api/track", body, headers=agent)

    with run.instance(patient=True, limits=True) as service, honest(run, service):
        with Attackers(service, send, lambda number: f"127.{60 + number % 4}.0.9") as attackers:
            until(run)
        run.figure(str(attackers))
        endless = service.redis("EVAL", ENDLESS, 0)
        run.none("counters without an end", len(endless), endless)


ENDLESS = """local out = {}
for _, key in ipairs(redis.call('KEYS', 'hot:*:{made-*')) do
  if redis.call('TTL', key) == -1 then out[#out + 1] = key end
end
for _, key in ipairs(redis.call('KEYS', 'hot:added:*')) do
  if redis.call('TTL', key) == -1 then out[#out + 1] = key end
end
return out"""


@fault("A4", "made-up ids from twenty networks until Redis is nearly full", "hiding and erasing 0 refused, reads and honest reports go on or wait")
def filling(run):
    def send(client, number):
        return client.track(f"made-up-{number}".ljust(LONGEST_ID, "x"), 1, sessionId=f"s{number}".ljust(LONGEST_ID, "x"))

    with run.instance(patient=True, items__unknown='"count"') as service, honest(run, service):  # as shipped
        with Attackers(service, send, lambda number: f"127.{60 + number % 20}.0.9") as attackers:
            until(run)
        made = service.redis("ZCARD", "hot:unlisted")
        run.figure(f"{attackers}; {made} articles made")
        run.none("more than a hundred a network", max(0, made - 2000))
    # A site that lists what nobody vouched for has more of it.
    with run.instance(patient=True, spool__max_bytes='"64M"') as service:
        with honest(run, service, fine=(200, 202)):
            service.put("to-be-hidden")
            # So much that the buffers of connections make no difference, nor what a fast host lets in between two looks, a second apart.
            service.redis("SETRANGE", "hot:session:{strangers}:s", 1 << 28, "x")
            service.redis("EXPIRE", "hot:session:{strangers}:s", 3600)
            limit = int(service.redis("MEMORY", "STATS")["total.allocated"] / 0.885)
            service.redis("CONFIG", "SET", "maxmemory", limit)
            with Attackers(service, send, lambda number: f"127.{60 + number % 20}.0.9") as attackers:
                wait_until(lambda: service.status()["redis full"] == 1, "Redis to be nearly full", 120)
                until(run)
                internal = service.internal()
                replies = [internal.put("/api/items/to-be-hidden", {"title": "t", "published_at": int(time.time()), "hidden": True}),
                           internal.delete("/api/users/honest-0-not"), internal.get("/health/ready"), service.public().get("/api/hot?model=views")]
            used = service.redis("MEMORY", "STATS")["total.allocated"] / limit
            run.figure(f"{attackers}; Redis {100 * used:.1f} % full", used < 0.97, safety=True)
            run.none("of hiding, erasing, readiness and reading refused", sum(reply.status not in (200, 202) for reply in replies), replies)
            service.redis("CONFIG", "SET", "maxmemory", 16 * limit)  # for all that waits in spools, however much a fast host let in
            wait_until(lambda: service.status()["redis full"] == 0, "the workers to learn that there is room", 60)


@fault("A5", "first reports that date articles at 1970, and in a year", "the articles' scores are those of articles nobody forged")
def buried(run):
    def send(client, number):
        return client.track(f"dated-{number}", 0, sessionId=f"s{number}", publishedAt=0 if number % 2 else int(time.time()) + 365 * 86400)

    with run.instance(patient=True, limits=True) as service, honest(run, service):
        with Attackers(service, send, lambda number: f"127.{60 + number % 20}.0.9", threads=2) as attackers:
            until(run)
        run.figure(str(attackers))
        fair = service.internal().track("of-today", 0, sessionId="fair", publishedAt=int(time.time())).json()["score"]
        # By name, since who is buried is on no list.
        replies = {f"dated-{number}": service.internal().get(f"/api/articles/dated-{number}/stats") for number in range(100)}
        forged = {item: reply.json()["score"] for item, reply in replies.items() if reply.status == 200}
        wrong = {item: score for item, score in forged.items() if abs(score / fair - 1) > 0.01}
        run.figure(f"{len(forged)} articles looked at", len(forged) > 4, safety=True)
        run.none("articles buried or raised", len(wrong), list(wrong.items()))


@fault("A6", "free text as ids, with controls in it, from nine networks, at full dwell", "none of it on a public list, controls 0 accepted")
def free_text(run):
    text, hidden = "BUY-AT-EVIL.EXAMPLE-".ljust(120, "!"), "BUY\u202e-NOW"

    def send(client, number):
        item = hidden if number % 5 == 0 else f"{text}{number % 40}"
        if number % 2:
            return client.post("/api/views", {"articleId": item, "fingerprint": f"f{number}", "publishedAt": int(time.time())})
        return client.track(item, 180000, sessionId=f"s{number}")

    with run.instance(patient=True, limits=True, items__unknown='"count"') as service, honest(run, service):
        with Attackers(service, send, lambda number: f"127.{60 + number % 9}.0.{1 + number % 200}", threads=2) as attackers:
            until(run)
        run.figure(str(attackers))
        service.await_placed(limit_s=2)  # the honest ones go on
        lists = [item["id"] for model in ("engagement", "views") for item in service.internal().get(f"/api/hot?model={model}&limit=100").json()]
        run.none("articles listed that nobody vouched for", sum(item != "honest-article" for item in lists), lists)
        run.figure(f"{service.redis('ZCARD', 'hot:unlisted')} counted and not listed", service.redis("ZCARD", "hot:unlisted") > 0, safety=True)
        run.none("ids with controls kept", len(service.redis("KEYS", "*BUY*NOW*")))


@fault("A7", "a page of another site writes to the internal server through its operator's browser", "nothing is written, the server's own callers 0 refused")
def pages(run):
    item = {"title": "bought", "published_at": int(time.time())}
    headers = [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example:8081"}, {"Content-Type": "text/plain"}]
    asked = [("PUT", "/api/items/forged", item), ("POST", "/api/interactions", {"userId": "honest-1", "topicId": "forged", "kind": "like"}),
             ("POST", "/api/waterfall/discover", {"items": ["forged"], "customers": ["honest-1"]}), ("POST", "/api/history/merge", {"from": "honest-1", "to": "x"})]
    with run.instance(patient=True, limits=True) as service, honest(run, service):
        statuses, internal, deadline = [], service.internal(), time.monotonic() + run.scale(4, 30)
        while time.monotonic() < deadline:
            for (method, path, body), said in itertools.product(asked, headers):
                statuses.append(internal.ask(method, path, json.dumps(body), headers=said).status)
            assert internal.put("/api/items/own", item).status == 200
        run.figure(f"{len(statuses):,} forged requests")
        run.none("that were not refused", sum(status not in (403, 415) for status in statuses))
        run.none("of their items there", int(internal.get("/api/items/forged").status != 404))


@fault("A8", "the site's own programs report with the agents of crawlers' tools", "each counts on the internal server, and none on the public one")
def own_callers(run):
    agents = ["python-requests/2.31", "Go-http-client/1.1", "axios/1.6", "okhttp/4.12", "curl/8.5", "WordPress/6.4", "Googlebot/2.1"]
    with run.instance(patient=True, limits=True) as service, honest(run, service):
        own, sent, deadline = [service.internal(agent=agent) for agent in agents], 0, time.monotonic() + run.scale(4, 30)
        crawler = service.public(agent="Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", source="127.77.0.1")
        replies = []
        while time.monotonic() < deadline:
            for client in own:
                replies.append(client.track("own-article", 1, sessionId=f"s{sent}"))
                sent += 1
            assert crawler.track("own-article", 1).status in (200, 429)
        run.figure(f"{sent:,} reports of {len(agents)} agents")
        run.none("refused, or not counted", sum(reply.status != 200 or "counted" in reply.json() for reply in replies))
        run.none("page views too many or too few", abs(service.stats("own-article")["pv"] - sent))
