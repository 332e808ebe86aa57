"""A1, A2, A4 to A10: anonymous clients try to poison lists, fill Redis or lock others out, while honest readers stay
within their limits.
"""

import contextlib
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import threading
import time

from client import AGENT
from service import wait_until

from faults.clients import SlowClients
from faults.scenario import fault, percentile

READERS = 8  # honest ones, in distinct networks
PAUSE_S = 0.3  # between two requests of an honest reader, so that it stays below all limits
MAX_ID_LENGTH = 512
PROXY = "127.90.0.1"  # nginx believes its X-Forwarded-For with TRUST_PROXY
TRUST_PROXY = rf"s/#set_real_ip_from .*/set_real_ip_from {PROXY};/; s/#real_ip_header/real_ip_header/"


def visitor_cookie(client):
    return {"Cookie": client.post("/api/visitor", None).headers["Set-Cookie"].split(";")[0]}


class HonestReader(threading.Thread):
    """Reports an article, reads the list and refreshes the feed in turn, until stopped.

    results: (time of the reply, latency in s, status). lost: errors of requests without a reply. acknowledged: number
    of reports. finished: when the last request with a reply or an error was sent.
    """

    def __init__(self, service, number, article, timeout_s):
        super().__init__(daemon=True)
        self.results, self.lost, self.acknowledged, self.finished = [], [], 0, 0
        self._client, self._name, self._article, self._stop_now = service.public(source=f"127.1.{number}.1", timeout=timeout_s), f"honest-{number}", article, threading.Event()
        self._cookie = visitor_cookie(self._client)  # names the reader in the modes header and token

    def run(self):
        for turn in itertools.count():
            report = {"articleId": self._article, "dwellMs": 1000, "userId": self._name, "sessionId": f"{self._name}-{turn}"}
            for method, path, body in (("POST", "/api/track", report), ("GET", "/api/hot?model=engagement", None),
                                       ("POST", "/api/feed", {"action": "refresh", "agent_id": self._name, "limit": 5})):
                began = time.monotonic()
                try:
                    status = self._client.request(method, path, body, headers=self._cookie).status
                except OSError as error:
                    self.lost.append(repr(error))
                    self.finished = began
                    continue
                self.results.append((time.monotonic(), time.monotonic() - began, status))
                self.finished = began
                self.acknowledged += path == "/api/track" and status in (200, 202)
                if self._stop_now.wait(PAUSE_S):
                    return

    def stop(self):
        self._stop_now.set()
        self.join(60)


class Attackers:
    """Threads that call send(client, number) without a pause until the block ends. source(number) returns the client's
    address.
    """

    def __init__(self, service, send, source, threads=4):
        self.statuses, self._stop, self._lock = {}, threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(service, send, source, number), daemon=True) for number in range(threads)]

    def _run(self, service, send, source, first):
        clients = {}
        for number in itertools.count(first, len(self._threads)):
            if self._stop.is_set():
                return
            address = source(number)
            client = clients.setdefault(address, service.public(source=address))
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
        return f"{sum(self.statuses.values()):,} attacks: " + ", ".join(f"{count:,} × {status}" for status, count in sorted(self.statuses.items()))


@contextlib.contextmanager
def honest_readers(run, service, allowed=(200,), timeout_s=80):
    """Runs honest readers alone for a while, then during the block. Checks that all requests were served with an
    allowed status within timeout_s, and that each report was counted once, and compares latencies. Yields a function
    that waits until each reader has sent a request after a time (time.monotonic) and has its reply, and returns the p99
    in ms of the requests that were answered since.
    """
    article = "honest-article"
    service.put(article)
    readers = [HonestReader(service, number, article, timeout_s) for number in range(READERS)]
    for each in readers:
        each.start()
    time.sleep(run.scale(1, 15))
    began = time.monotonic()

    def p99_since_ms(since):
        wait_until(lambda: all(each.finished >= since for each in readers), "replies to honest readers", 2 * timeout_s)
        return 1000 * percentile(sorted(row[1] for each in readers for row in list(each.results) if row[0] >= since), 0.99)

    yield p99_since_ms
    for each in readers:
        each.stop()
    rows = [row for each in readers for row in each.results]
    alone, attacked = [sorted(row[1] for row in rows if (row[0] >= began) == later) for later in (False, True)]
    bad = [row for row in rows if row[2] not in allowed]
    run.expect_none("honest requests refused or lost", len(bad) + sum(len(each.lost) for each in readers), [*bad, *(text for each in readers for text in each.lost)])
    alone_ms, attacked_ms = [1000 * percentile(each, 0.99) for each in (alone, attacked)]
    run.expect_at_most(f"honest p99 {alone_ms:.0f} ms alone, {attacked_ms:.0f} ms during the attack ({len(attacked)} requests):", attacked_ms / max(alone_ms, 10), 2, "×")
    acknowledged = sum(each.acknowledged for each in readers)
    wait_until(lambda: service.status()["spooled bytes"] == 0, "spooled reports to be counted", 60)
    run.expect_none("honest reports lost or counted twice", abs(service.stats(article)["pv"] - acknowledged))


def let_attack_run(run):
    time.sleep(run.scale(2, 30))


@fault("A1", "780 slow bodies from seven addresses of one network", "honest readers of other networks: 0 refused, p99 ≤ 2 × alone")
def slow_bodies(run):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with run.instance(long_timeouts=True, limits=True) as service, honest_readers(run, service):
        with SlowClients((service.host, service.port), None, 780, 0, 0, [f"127.66.0.{number}" for number in range(2, 9)]) as slow:
            let_attack_run(run)
        run.report(f"{slow.opened} slow bodies, {slow.dropped} dropped")


@fault("A2", "shared sessions, repeated event ids and new names in every request", "every key has a TTL or a cap (freshetctl check)")
def keys_without_ttl(run):
    def send(client, number):
        agent, session = {"User-Agent": f"{AGENT} {number % 40}"}, f"shared-{number % 7}"
        if number % 3 == 0:
            body = {"articleId": f"made-{number % 50}", "fingerprint": f"f{number % 11}", "publishedAt": int(time.time()), "eventId": f"shared-event-{number % 13}"}
            return client.request("POST", "/api/views", body, headers=agent)
        body = {"articleId": f"made-{number % 50}", "sessionId": session, "dwellMs": number % 3 * 1000, "eventId": f"shared-event-{number % 17}"}
        return client.request("POST", "/api/track", body, headers=agent)

    with run.instance(long_timeouts=True, limits=True) as service, honest_readers(run, service):
        with Attackers(service, send, lambda number: f"127.{60 + number % 4}.0.9") as attackers:
            let_attack_run(run)
        run.report(str(attackers))
        keys = service.redis("EVAL", KEYS_WITHOUT_TTL, 0)
        run.expect_none("counters without a TTL", len(keys), keys)


KEYS_WITHOUT_TTL = """local out = {}
for _, key in ipairs(redis.call('KEYS', 'hot:*:{made-*')) do
  if redis.call('TTL', key) == -1 then out[#out + 1] = key end
end
for _, key in ipairs(redis.call('KEYS', 'hot:added:*')) do
  if redis.call('TTL', key) == -1 then out[#out + 1] = key end
end
return out"""


@fault("A4", "made-up ids from twenty networks until Redis is nearly full", "hiding and erasure 0 refused, reads and honest reports served or queued")
def redis_filled(run):
    def send(client, number):
        return client.track(f"made-up-{number}".ljust(MAX_ID_LENGTH, "x"), 1, sessionId=f"s{number}".ljust(MAX_ID_LENGTH, "x"))

    with run.instance(long_timeouts=True, items__unknown='"count"') as service, honest_readers(run, service):  # as shipped
        with Attackers(service, send, lambda number: f"127.{60 + number % 20}.0.9") as attackers:
            let_attack_run(run)
        created = service.redis("ZCARD", "hot:unlisted")
        run.report(f"{attackers}; {created} unverified articles")
        run.expect_none("unverified articles beyond 100 per network", max(0, created - 2000))
    # A site that lists unverified articles stores more of them.
    with run.instance(long_timeouts=True, spool__max_bytes='"64M"') as service:
        with honest_readers(run, service, allowed=(200, 202)):
            service.put("to-be-hidden")
            # Large enough that neither connection buffers nor what a fast host accepts between two samples of Redis'
            # memory (a second) matters.
            service.redis("SETRANGE", "hot:session:{filler}:s", 1 << 28, "x")
            service.redis("EXPIRE", "hot:session:{filler}:s", 3600)
            limit = int(service.redis("MEMORY", "STATS")["total.allocated"] / 0.885)
            service.redis("CONFIG", "SET", "maxmemory", limit)
            with Attackers(service, send, lambda number: f"127.{60 + number % 20}.0.9") as attackers:
                wait_until(lambda: service.status()["redis full"] == 1, "Redis to be nearly full", 120)
                let_attack_run(run)
                internal = service.internal()
                replies = [internal.put("/api/items/to-be-hidden", {"title": "t", "published_at": int(time.time()), "hidden": True}),
                           internal.delete("/api/users/honest-0-not"), internal.get("/health/ready"), service.public().get("/api/hot?model=views")]
            used = service.redis("MEMORY", "STATS")["total.allocated"] / limit
            run.report(f"{attackers}; Redis {100 * used:.1f} % full", used < 0.97, safety=True)
            run.expect_none("requests to hide, erase and read refused", sum(reply.status not in (200, 202) for reply in replies), replies)
            service.redis("CONFIG", "SET", "maxmemory", 16 * limit)  # enough for all spooled reports
            wait_until(lambda: service.status()["redis full"] == 0, "the workers to notice the free memory", 60)


@fault("A5", "first reports that date articles at 1970 or one year ahead", "after a reader's report, scores equal those of articles with true dates")
def dates_forged(run):
    def send(client, number):
        return client.track(f"dated-{number}", 0, sessionId=f"s{number}", publishedAt=0 if number % 2 else int(time.time()) + 365 * 86400)

    with run.instance(long_timeouts=True, limits=True) as service, honest_readers(run, service):
        with Attackers(service, send, lambda number: f"127.{60 + number % 20}.0.9", threads=2) as attackers:
            let_attack_run(run)
        run.report(str(attackers))
        for session in ("attacker", "reader"):
            fair = service.internal().track("of-today", 0, sessionId=session, publishedAt=int(time.time())).json()["score"]
        # Read by id, since articles with a low score are on no list.
        replies = {}
        for number in range(100):
            reader = service.public(source=f"127.90.{number}.1")
            if reader.track(f"dated-{number}", 0, sessionId="reader", publishedAt=int(time.time())).status == 200:
                replies[f"dated-{number}"] = service.internal().get(f"/api/articles/dated-{number}/stats")
        forged = {item: reply.json()["score"] for item, reply in replies.items() if reply.status == 200}
        wrong = {item: score for item, score in forged.items() if abs(score / fair - 1) > 0.01}
        run.report(f"{len(forged)} articles compared", len(forged) > 4, safety=True)
        run.expect_none("articles with a forged score", len(wrong), list(wrong.items()))


@fault("A6", "free text and control characters as ids, from nine networks, with the longest dwell", "none on a public list, 0 control characters accepted")
def free_text(run):
    text, hidden = "BUY-AT-EVIL.EXAMPLE-".ljust(120, "!"), "BUY\u202e-NOW"

    def send(client, number):
        item = hidden if number % 5 == 0 else f"{text}{number % 40}"
        if number % 2:
            return client.post("/api/views", {"articleId": item, "fingerprint": f"f{number}", "publishedAt": int(time.time())})
        return client.track(item, 180000, sessionId=f"s{number}")

    with run.instance(long_timeouts=True, limits=True, items__unknown='"count"') as service, honest_readers(run, service):
        with Attackers(service, send, lambda number: f"127.{60 + number % 9}.0.{1 + number % 200}", threads=2) as attackers:
            let_attack_run(run)
        run.report(str(attackers))
        service.wait_for_background_writes(limit_s=2)  # honest readers continue
        lists = [item["id"] for model in ("engagement", "views") for item in service.internal().get(f"/api/hot?model={model}&limit=100").json()]
        run.expect_none("unverified articles listed", sum(item != "honest-article" for item in lists), lists)
        run.report(f"{service.redis('ZCARD', 'hot:unlisted')} counted but not listed", service.redis("ZCARD", "hot:unlisted") > 0, safety=True)
        run.expect_none("ids with control characters stored", len(service.redis("KEYS", "*BUY*NOW*")))


@fault("A7", "another site's page writes to the internal server through the operator's browser", "nothing written, the site's own requests 0 refused")
def cross_site_writes(run):
    item = {"title": "bought", "published_at": int(time.time())}
    headers = [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example:8081"}, {"Content-Type": "text/plain"}]
    requests = [("PUT", "/api/items/forged", item), ("POST", "/api/interactions", {"userId": "honest-1", "topicId": "forged", "kind": "like"}),
                ("POST", "/api/waterfall/discover", {"items": ["forged"], "customers": ["honest-1"]}), ("POST", "/api/history/merge", {"from": "honest-1", "to": "x"})]
    with run.instance(long_timeouts=True, limits=True) as service, honest_readers(run, service):
        statuses, internal, deadline = [], service.internal(), time.monotonic() + run.scale(2, 30)
        while time.monotonic() < deadline:
            for (method, path, body), extra in itertools.product(requests, headers):
                statuses.append(internal.request(method, path, json.dumps(body), headers=extra).status)
            assert internal.put("/api/items/own", item).status == 200
        run.report(f"{len(statuses):,} forged requests")
        run.expect_none("forged requests not refused", sum(status not in (403, 415) for status in statuses))
        run.expect_none("forged items stored", int(internal.get("/api/items/forged").status != 404))


@fault("A8", "the site's own programs report with user agents of bots", "all counted on the internal server, none on the public one")
def bot_agents(run):
    agents = ["python-requests/2.31", "Go-http-client/1.1", "axios/1.6", "okhttp/4.12", "curl/8.5", "WordPress/6.4", "Googlebot/2.1"]
    with run.instance(long_timeouts=True, limits=True) as service, honest_readers(run, service):
        own, sent, deadline = [service.internal(agent=agent) for agent in agents], 0, time.monotonic() + run.scale(2, 30)
        crawler = service.public(agent="Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", source="127.77.0.1")
        replies = []
        while time.monotonic() < deadline:
            for client in own:
                replies.append(client.track("own-article", 1, sessionId=f"s{sent}"))
                sent += 1
            assert crawler.track("own-article", 1).status in (200, 429)
        run.report(f"{sent:,} reports with {len(agents)} user agents")
        run.expect_none("reports refused or not counted", sum(reply.status != 200 or "counted" in reply.json() for reply in replies))
        run.expect_none("page views too many or too few", abs(service.stats("own-article")["pv"] - sent))


class Flood:
    """flood.py as a process. cores: its limit, or None."""

    def __init__(self, service, kind, addresses, cores):
        self._command = [os.path.join(os.path.dirname(__file__), "flood.py"), service.host, str(service.port), kind, *addresses]
        self._cores = cores

    def __enter__(self):
        self._process = subprocess.Popen([sys.executable, *self._command], stdout=subprocess.PIPE, text=True)
        self._limit = self._cores and subprocess.Popen(["cpulimit", "-q", "-l", str(int(100 * self._cores)), "-p", str(self._process.pid)], stdout=subprocess.DEVNULL)
        assert self._process.stdout.readline() == "started\n"
        return self

    def __exit__(self, *_):
        if self._limit:
            self._limit.terminate()  # continues the flood, should it be stopped
            self._limit.wait(30)
        self._process.terminate()
        vars(self).update(json.loads(self._process.communicate(timeout=60)[0]))

    def __str__(self):
        return f"{self.connections:,} connections, " + ", ".join(f"{count:,} × {status}" for status, count in sorted(self.statuses.items()))


# {name: sources of flood.py}
FLOOD_SOURCES = {
    "one address": ["127.60.0.9"],
    "ten addresses": [f"127.{60 + number}.0.9" for number in range(10)],
    "a /24": [f"127.80.0.{number}" for number in range(1, 255)],
    "a /48": [f"{PROXY}=2001:db8:1"],
}
NETWORK_RATE, NETWORK_BURST = 400, 800  # as shipped
LIMITED = ("200", "403", "404")  # statuses of requests that count; nginx ends the connection with 400, 405 and 413


def p99_target_ms(attacker, cores):
    return {(True, True): 50, (True, False): 200, (False, True): 150, (False, False): 400}[attacker == "one address", cores is not None]


@fault("A9", "floods of pipelined requests from one address, ten, a /24 and new /64s of a /48: /openapi.json with gzip, missing pages, refused lists, everything at once",
       "p99 ≤ 50 ms (several addresses: 150) with the attacker held to half a core, ≤ 200 (400) without; every honest request answered within 8 s; one 429 and ≤ 100 replies per connection; no more replies than a network's limit allows")
def floods(run):
    kinds = {"openapi": "openapi.json", "missing": "404", "hot": "refused lists", "mixed": "everything"}
    with run.instance(long_timeouts=True, limits=True, nginx_edit=TRUST_PROXY) as service, honest_readers(run, service, timeout_s=8) as p99_since_ms:
        ended, beyond = [], {}
        for (kind, name), (attacker, sources), cores in itertools.product(kinds.items(), FLOOD_SOURCES.items(), run.scale((0.5,), (0.5, None))):
            began = time.monotonic()
            with Flood(service, kind, sources, cores) as flood:
                started = time.monotonic()
                time.sleep(run.scale(1, 15))
                p99_ms = p99_since_ms(started)
            ended.append(flood)
            if attacker in ("a /24", "a /48"):
                most = NETWORK_BURST + 1 + math.ceil(NETWORK_RATE * (time.monotonic() - began))
                beyond[f"{name} from {attacker}"] = max(0, sum(flood.statuses.get(status, 0) for status in LIMITED) - most)
            print(f"  {run.name}: {name} from {attacker}, {cores or 'no limit on'} cores: p99 {p99_ms:.0f} ms; {flood}", file=sys.stderr, flush=True)
            what = f"{name} from {attacker}{', half a core' if cores else ''}: p99"
            if run.short:  # other tests share the machine, and p99 is the slowest of about 30 requests
                run.report(f"{what} {p99_ms:.0f} ms")
            else:
                run.expect_at_most(what, p99_ms, p99_target_ms(attacker, cores), safety=True)
        run.report(f"{sum(each.connections for each in ended):,} connections")
        run.expect_none("replies beyond a network's limit", sum(beyond.values()), beyond.items())
        run.expect_none("connections with more than 100 replies", sum(each.most_replies > 100 for each in ended), ended)
        run.expect_none("replies after a 429 on its connection", sum(each.after_refusal for each in ended), ended)
        reply = service.public(source="127.77.0.1").get("/openapi.json", headers={"Accept-Encoding": "gzip"})
        run.report("openapi.json is compressed in advance", (reply.headers["Content-Encoding"], reply.headers["Content-Length"]) == ("gzip", str(len(reply.body))), safety=True)


# A Redis of 1 GB, scaled down so that seconds do what hours would: memory, the windows of sessions and fingerprints, and
# bursts are a fortieth. Rates are as shipped.
SCALED_MEMORY = (1 << 30) // 40
SCALED = {"hot__session_window": '"45s"', "views__dedup_window": '"15s"', "limits__track_burst": 5, "limits__views_burst": 5}
EVENT_ID_SHARE = SCALED_MEMORY // 100 // 512 // 2  # of one network; as many more in the course of a day


@fault("A10", "one network, then ten, report new sessions with event ids within all limits, when Redis is 58 % full",
       "Redis stays below 90 %, honest requests 0 refused, each network's event ids within its share")
def memory_filled_within_limits(run):
    articles = [f"article-{number}-".ljust(MAX_ID_LENGTH, "x") for number in range(40)]

    def send(client, number):
        agent, members = {"User-Agent": f"{AGENT} {number % 40}"}, {"articleId": articles[number % 40], "eventId": f"event-{number}".ljust(MAX_ID_LENGTH, "x")}
        if number % 2:
            return client.request("POST", "/api/views", members | {"fingerprint": f"f{number}", "publishedAt": int(time.time())}, headers=agent)
        return client.request("POST", "/api/track", members | {"sessionId": f"s{number}", "dwellMs": 1}, headers=agent)

    def usage():
        return service.redis("MEMORY", "STATS")["total.allocated"] / SCALED_MEMORY

    def attack(networks, seconds):
        """Returns the highest usage that was seen."""
        with Attackers(service, send, lambda number: f"127.{60 + number // 2 % networks}.0.{1 + number // 20 % 20}") as attackers:
            highest, deadline = 0, time.monotonic() + seconds
            while time.monotonic() < deadline:
                highest = max(highest, usage())
                time.sleep(0.3)
        run.report(f"{networks} network{'s' if networks > 1 else ''}, {seconds} s: {100 * highest:.0f} % ({attackers})")
        return highest

    with run.instance(long_timeouts=True, limits=True, **SCALED) as service, honest_readers(run, service):
        for article in articles:
            service.put(article)
        service.redis("SETRANGE", "hot:session:{filler}:s", int((0.58 - usage()) * SCALED_MEMORY), "x")
        service.redis("EXPIRE", "hot:session:{filler}:s", 3600)
        service.redis("CONFIG", "SET", "maxmemory", SCALED_MEMORY)
        service.wait_for_memory_sample()
        highest = max(attack(1, run.scale(6, 60)), attack(10, run.scale(14, 240)))
        run.report(f"Redis at most {100 * highest:.1f} % full", highest < 0.9, safety=True)
        kept = sum(len(service.redis("KEYS", f"{kind}:*")) for kind in ("hot:event", "hot:view:event"))
        run.report(f"{kept:,} event ids kept of ten networks", EVENT_ID_SHARE < kept <= 10 * EVENT_ID_SHARE + 20, safety=True)
