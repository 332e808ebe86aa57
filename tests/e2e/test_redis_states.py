"""A Redis that answers and will not: out of memory, a replica, unable to save, busy, loading, with another password. And one behind a bad line.

Reads go on, writes are acknowledged and count once, or are refused with Retry-After; never a 500.
"""

import os
import signal
import subprocess
import threading

import pytest
from client import Load, Noise
from proxy import Proxy
from readers import Readers, known_items, read_items
from service import PATIENT, wait_until

SLOWEST_S = 0.5  # as in test_redis_faults.py


class Guarded:
    """A service whose workers have read and counted something, and what may be asked of it in any state of its Redis."""

    def __init__(self, service, name):
        self.service, self.name = service, name
        self.readers, self.titles = Readers(service, name), known_items(service, name)
        client = service.public()
        for turn in range(60):
            self.readers.report(client, turn)
        assert service.internal().get("/api/hot").status == 200
        assert service.public().post("/api/feed", {"action": "refresh", "agent_id": "r", "limit": 3}).status == 200
        self._turn = 60

    def writes(self, times=30):
        """Statuses of events, each once, which count later if they were acknowledged."""
        client, statuses = self.service.public(), set()
        for _ in range(times):
            self._turn += 1
            article = self.readers.articles[self._turn % len(self.readers.articles)]
            reply = client.track(article, 1, userId=f"u{self._turn}", sessionId=f"s{self._turn}", eventId=f"e{self._turn}")
            statuses.add(reply.status)
            if reply.status in (200, 202):
                self.readers.acknowledged[article].append(1)
            else:
                assert int(reply.headers["Retry-After"]) >= 1, reply
        return statuses

    def reads(self, times=10):
        client, internal = self.service.public(), self.service.internal()
        item = next(iter(self.titles))
        statuses = {"item": set()}
        for turn in range(times):
            for what, reply in (("hot", internal.get("/api/hot")),
                                ("feed", client.post("/api/feed", {"action": "refresh", "agent_id": f"r{turn}", "limit": 3})),
                                ("recommendations", client.get("/api/recommendations?userId=r&limit=3"))):
                assert reply.status == 200, (what, reply)
            reply = internal.get(f"/api/items/{item}")
            statuses["item"].add(reply.status)
            if reply.status == 200:
                assert reply.json()["title"] == self.titles[item]
        return statuses

    def counted(self, error_class):
        """Whether failures of that class were counted, by any worker."""
        return wait_until(lambda: int(self.service.status()["redis failures"][error_class]) > 0, f"{error_class} to be counted")

    def put(self):
        return self.service.internal().put(f"/api/items/{self.name('p')}", {"title": "t", "published_at": 1}).status

    def normal(self):
        wait_until(lambda: self.service.status()["redis ready"] == len(self.service.workers()), "all workers' connections")
        wait_until(lambda: self.writes(1) == {200}, "a counted event")
        wait_until(lambda: self.put() == 200, "an item")  # each connection comes back in its own time
        assert self.reads(3) == {"item": {200}}
        self.readers.assert_counted_once()
        self.service.check()


@pytest.fixture
def guarded(instance, name):
    return Guarded(instance("--no-limits", **PATIENT), name)


def test_a_redis_that_became_a_replica(guarded):
    guarded.service.redis("REPLICAOF", "127.0.0.1", "1")
    assert guarded.writes() <= {202}
    assert guarded.put() == 503
    assert guarded.reads()["item"] <= {200, 503}
    guarded.counted("readonly")
    guarded.service.redis("REPLICAOF", "NO", "ONE")
    guarded.normal()


def test_a_redis_that_cannot_save(guarded):
    service = guarded.service
    folder = os.path.join(service.state, "redis")
    if os.geteuid() == 0 and os.stat(folder).st_uid == 0:
        pytest.skip("root can write everywhere")
    service.redis("CONFIG", "SET", "save", "3600 1000000")
    os.chmod(folder, 0o555)
    try:
        service.redis("BGSAVE")
        wait_until(lambda: service.persistence("rdb_last_bgsave_status") == "err", "a failed save")
        assert guarded.writes() <= {202}
        assert guarded.put() == 503
        guarded.counted("misconf")
        assert guarded.reads() == {"item": {200}}  # it reads all the same
    finally:
        os.chmod(folder, 0o755)
    service.redis("BGSAVE")
    wait_until(lambda: service.persistence("rdb_last_bgsave_status") == "ok", "a save")
    guarded.normal()


def test_a_redis_that_is_busy_with_a_script(guarded):
    service = guarded.service
    service.redis("CONFIG", "SET", "busy-reply-threshold", "100")
    endless = subprocess.Popen(["redis-cli", "-s", service.redis_socket(), "EVAL", "while true do end", "0"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: 202 in guarded.writes(3), "queued events")
        assert guarded.writes() <= {202}
        assert guarded.put() == 503
        assert guarded.reads()["item"] <= {200, 503}
        guarded.counted("busy")
    finally:
        service.redis("SCRIPT", "KILL")
        endless.wait(20)
    guarded.normal()


def test_an_account_that_may_not(guarded):
    service = guarded.service
    service.expects_refusals = True
    service.redis("ACL", "SETUSER", "freshet", "-evalsha")
    assert guarded.writes() <= {202}
    assert guarded.put() == 503
    guarded.reads()
    guarded.counted("permission")
    service.redis("ACL", "SETUSER", "freshet", "+evalsha")
    guarded.normal()


def test_an_account_that_is_gone(guarded):
    service = guarded.service
    service.expects_refusals = True
    rule = next(line for line in service.redis("ACL", "LIST") if line.startswith("user freshet "))
    service.redis("ACL", "DELUSER", "freshet")
    wait_until(lambda: service.status()["redis ready"] == 0, "the loss to be noticed")
    assert guarded.writes() <= {202}
    assert guarded.put() == 503
    guarded.reads()
    guarded.counted("noauth")
    service.redis("ACL", "SETUSER", *rule.split()[1:])
    guarded.normal()


def test_a_redis_that_is_loading(guarded):
    service = guarded.service
    # As the base of the file it is read key by key; while it reads commands Redis listens to nobody.
    for turn in range(300):
        service.redis("SET", f"hot:session:{{load-{turn}}}:s", "1" * 300, "EX", "3600")
    service.redis("BGREWRITEAOF")
    wait_until(lambda: service.persistence("aof_rewrite_in_progress") == "0" and service.persistence("aof_base_size") != "0", "the file's base")
    service.kill_redis()
    starting = threading.Thread(target=service.restart_redis, args=("--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"))
    starting.start()
    try:
        wait_until(lambda: "redis_handshake_failed error=\"LOADING" in service.log(), "a worker that heard of it", 40)
        guarded.counted("loading")
        assert guarded.writes(10) <= {202, 200}
        guarded.reads(2)
    finally:
        starting.join(60)
    service.redis("CONFIG", "SET", "key-load-delay", "0")
    guarded.normal()


@pytest.mark.latency
@pytest.mark.parametrize("harm", [{"delay_s": (0.0, 0.045)}, {"chunk": 1, "chunk_pause_s": 0.0002}, {"reset_chance": 0.05},
                                  {"chunk": 7, "reset_chance": 0.02, "delay_s": (0.0, 0.02)}], ids=["slow", "dribbling", "breaking", "all"])
def test_a_bad_line_to_redis_mixes_nothing_up_and_holds_nobody_up(instance, name, harm):
    service = instance("--no-limits")
    with Proxy(service.redis_socket(), seed=7) as proxy:
        titles = known_items(service, name)
        service.configure(redis__url=f'"{proxy.url}"')
        service.reload()
        readers = Readers(service, name)
        with Load(service.public, readers.report) as writes, Load(service.internal, read_items(titles, allowed=(200, 503)), threads=2) as reads, \
                Noise(service.internal) as noise:
            wait_until(lambda: writes.results.count(200) > 50, "load")
            proxy.set(**harm)
            seen, reported = len(reads.results), len(writes.results)
            wait_until(lambda: len(reads.results) > seen + 200 and len(writes.results) > reported + 50, "load", 60)
            proxy.set()
            back = len(writes.results)
            wait_until(lambda: writes.results[back:].count(200) > 50, "normal service", 60)
        assert writes.errors == [] and reads.errors == []
        slowest_read_s = max(reply.seconds for reply in reads.results)
        print(f"slowest write {readers.slowest_s:.3f} s, slowest read {slowest_read_s:.3f} s, without a worker {noise.slowest_s():.3f} s")
        assert noise.errors == [] and max(readers.slowest_s, slowest_read_s) < SLOWEST_S + 2 * noise.slowest_s()
        readers.assert_counted_once()
        service.check()


@pytest.mark.latency
def test_while_the_breaker_is_open_nobody_waits(instance, name):
    service = instance("--no-limits", pm__max_children=1)
    titles = known_items(service, name)
    with Load(service.internal, read_items(titles, allowed=(200, 503))) as reads:
        wait_until(lambda: len(reads.results) > 100, "load")
        redis = service.pid("redis")
        os.kill(redis, signal.SIGSTOP)
        try:
            wait_until(lambda: service.status()["redis breakers open"] == 1, "the open breaker")
            began = len(reads.results)
            wait_until(lambda: len(reads.results) > began + 2000, "what it answers meanwhile")
            during = sorted(reply.seconds for reply in reads.results[began:])
        finally:
            os.kill(redis, signal.SIGCONT)
        wait_until(lambda: reads.results[-1].status == 200, "normal service")
    assert reads.errors == []
    print(f"open: {len(during)} requests, p99 {during[len(during) * 99 // 100] * 1000:.1f} ms, slowest {during[-1] * 1000:.1f} ms")
    assert during[len(during) * 99 // 100] < SLOWEST_S


def test_pages_that_have_no_time_left_are_answered_as_without_redis(instance, name):
    """Each round trip is within redis.timeout, two are beyond gateway.request_budget."""
    service = instance("--no-limits", pm__max_children=1)
    known_items(service, name)
    feed = {"action": "load_more", "agent_id": "r", "limit": 3}
    with Proxy(service.redis_socket(), seed=7) as proxy:
        service.configure(redis__url=f'"{proxy.url}"', redis__timeout=500, gateway__request_budget=510)
        service.reload()
        wait_until(lambda: len(service.workers()) == 1, "the old worker's end")
        client = service.public()
        first = client.post("/api/feed", feed).json()["data"]
        asked = feed | {"page": first["page"]}
        late = service.status()["over budget"]
        proxy.set(delay_s=(0.35, 0.4))
        for what, reply in (("refresh", client.post("/api/feed", feed | {"action": "refresh", "agent_id": "other"})),
                            ("next", client.post("/api/feed", asked)),
                            ("peek", client.post("/api/feed", {"action": "peek", "agent_id": "third"})),
                            ("timeline", client.get("/api/waterfall/follow?customerId=r&direction=first")),
                            ("history", client.get("/api/history?userId=r")),
                            ("recommendations", client.get("/api/recommendations?userId=r&limit=3"))):
            assert reply.status == 200, (what, reply)
            if what == "refresh":
                data = reply.json()["data"]
                assert data["items"] == [] and data["has_more"] and data["degraded"] and data["missing"] == "redis"
                assert reply.headers["Freshet-Degraded"] == "true"
            if what == "next" and reply.json()["data"].get("degraded"):
                assert reply.json()["data"]["page"] == first["page"]
        assert service.status()["over budget"] > late
        proxy.set()
        # The page that was missed is not lost.
        wait_until(lambda: service.status()["in flight"] <= 1, "the handlers that went on")
        second = client.post("/api/feed", asked).json()["data"]
        assert len(second["items"]) == 3 and not {each["id"] for each in second["items"]} & {each["id"] for each in first["items"]}
        service.configure()
        service.reload()
