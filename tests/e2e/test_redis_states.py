"""Redis replies with errors (out of memory, a replica, unable to save, busy, loading, another password), or the connection
to it is unreliable.

Reads continue. Writes are acknowledged and count once, or are refused with Retry-After; never a 500.
"""

import os
import re
import signal
import subprocess
import threading

import pytest
from client import BaselineLoad, Load
from proxy import Proxy
from readers import Readers, known_items, read_items
from service import CTL, LONG_TIMEOUTS, REDIS_CLI, wait_until

SLOWEST_S = 0.5  # as in test_redis_faults.py


class Probe:
    """A service whose workers have read and counted something, and requests that must work in any state of Redis."""

    def __init__(self, service, name):
        self.service, self.name = service, name
        self.readers, self.titles = Readers(service, name), known_items(service, name)
        client = service.public()
        for turn in range(60):
            self.readers.report(client, turn)
        assert service.internal().get("/api/hot").status == 200
        assert service.public().post("/api/feed", {"action": "refresh", "agent_id": "r", "limit": 3}).status == 200
        self._turn = 60

    def write_statuses(self, times=30):
        """Statuses of new events. The acknowledged ones must count eventually."""
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

    def read_statuses(self, times=10):
        client, internal = self.service.public(), self.service.internal()
        item = next(iter(self.titles))
        statuses = {"item": set()}
        for turn in range(times):
            for label, reply in (("hot", internal.get("/api/hot")),
                                 ("feed", client.post("/api/feed", {"action": "refresh", "agent_id": f"r{turn}", "limit": 3})),
                                 ("recommendations", client.get("/api/recommendations?userId=r&limit=3"))):
                assert reply.status == 200, (label, reply)
            reply = internal.get(f"/api/items/{item}")
            statuses["item"].add(reply.status)
            if reply.status == 200:
                assert reply.json()["title"] == self.titles[item]
        return statuses

    def wait_until_counted(self, error_class):
        """Waits until a worker has counted a failure of this class."""
        return wait_until(lambda: int(self.service.status()["redis failures"][error_class]) > 0, f"{error_class} to be counted")

    def put(self):
        return self.service.internal().put(f"/api/items/{self.name('p')}", {"title": "t", "published_at": 1}).status

    def assert_recovered(self):
        wait_until(lambda: self.service.status()["redis ready"] == len(self.service.workers()), "all workers to connect")
        wait_until(lambda: self.write_statuses(1) == {200}, "a counted event")
        wait_until(lambda: self.put() == 200, "an item to be written")  # each connection recovers at its own time
        assert self.read_statuses(3) == {"item": {200}}
        self.readers.assert_counted_once()
        self.service.check()


@pytest.fixture
def probe(instance, name):
    return Probe(instance("--no-limits", **LONG_TIMEOUTS), name)


def test_writes_are_queued_while_redis_is_a_replica(probe):
    probe.service.redis("REPLICAOF", "127.0.0.1", "1")
    assert probe.write_statuses() <= {202}
    assert probe.put() == 503
    assert probe.read_statuses()["item"] <= {200, 503}
    probe.wait_until_counted("readonly")
    probe.service.redis("REPLICAOF", "NO", "ONE")
    probe.assert_recovered()


def test_writes_are_queued_while_redis_cannot_save(probe):
    service = probe.service
    folder = os.path.join(service.state, "redis")
    if os.geteuid() == 0 and os.stat(folder).st_uid == 0:
        pytest.skip("root can write everywhere")
    service.redis("CONFIG", "SET", "save", "3600 1000000")
    os.chmod(folder, 0o555)
    try:
        service.redis("BGSAVE")
        wait_until(lambda: service.persistence("rdb_last_bgsave_status") == "err", "a failed save")
        assert probe.write_statuses() <= {202}
        assert probe.put() == 503
        probe.wait_until_counted("misconf")
        assert probe.read_statuses() == {"item": {200}}  # reads still work
    finally:
        os.chmod(folder, 0o755)
    service.redis("BGSAVE")
    wait_until(lambda: service.persistence("rdb_last_bgsave_status") == "ok", "a save")
    probe.assert_recovered()


def test_writes_are_queued_while_redis_is_busy_with_a_script(probe):
    service = probe.service
    service.redis("CONFIG", "SET", "busy-reply-threshold", "100")
    endless = subprocess.Popen([REDIS_CLI, "-s", service.redis_socket(), "EVAL", "while true do end", "0"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: 202 in probe.write_statuses(3), "queued events")
        assert probe.write_statuses() <= {202}
        assert probe.put() == 503
        assert probe.read_statuses()["item"] <= {200, 503}
        probe.wait_until_counted("busy")
    finally:
        service.redis("SCRIPT", "KILL")
        endless.wait(20)
    probe.assert_recovered()


def test_writes_are_queued_while_the_account_lacks_a_right(probe):
    service = probe.service
    service.expects_acl_denials = True
    service.redis("ACL", "SETUSER", "freshet", "-evalsha")
    assert probe.write_statuses() <= {202}
    assert probe.put() == 503
    probe.read_statuses()
    probe.wait_until_counted("permission")
    service.redis("ACL", "SETUSER", "freshet", "+evalsha")
    probe.assert_recovered()


def test_writes_are_queued_while_the_account_is_missing(probe):
    service = probe.service
    service.expects_acl_denials = True
    rule = next(line for line in service.redis("ACL", "LIST") if line.startswith("user freshet "))
    service.redis("ACL", "DELUSER", "freshet")
    wait_until(lambda: service.status()["redis ready"] == 0, "the workers to notice")
    assert probe.write_statuses() <= {202}
    assert probe.put() == 503
    probe.read_statuses()
    probe.wait_until_counted("noauth")
    service.redis("ACL", "SETUSER", *rule.split()[1:])
    probe.assert_recovered()


def test_writes_are_queued_while_redis_is_loading(probe):
    service = probe.service
    # A base file is loaded key by key, and commands are answered meanwhile. While Redis replays commands, it answers
    # none.
    for turn in range(300):
        service.redis("SET", f"hot:session:{{load-{turn}}}:s", "1" * 300, "EX", "3600")
    service.redis("BGREWRITEAOF")
    wait_until(lambda: service.persistence("aof_rewrite_in_progress") == "0" and service.persistence("aof_base_size") != "0", "the rewritten base file")
    service.kill_redis()
    starting = threading.Thread(target=service.restart_redis, args=("--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"))
    starting.start()
    try:
        wait_until(lambda: "redis_handshake_failed error=\"LOADING" in service.log(), "a worker to see the LOADING error", 40)
        probe.wait_until_counted("loading")
        assert probe.write_statuses(10) <= {202, 200}
        probe.read_statuses(2)
    finally:
        starting.join(60)
    service.redis("CONFIG", "SET", "key-load-delay", "0")
    probe.assert_recovered()


@pytest.mark.latency
@pytest.mark.parametrize("impairment", [{"delay_s": (0.0, 0.045)}, {"chunk": 1, "chunk_pause_s": 0.0002}, {"reset_chance": 0.05},
                                        {"chunk": 7, "reset_chance": 0.02, "delay_s": (0.0, 0.02)}], ids=["slow", "fragmented", "resetting", "all"])
def test_an_unreliable_connection_neither_mixes_up_replies_nor_delays_requests(instance, name, impairment):
    service = instance("--no-limits")
    with Proxy(service.redis_socket(), seed=7) as proxy:
        titles = known_items(service, name)
        service.configure(redis__url=f'"{proxy.url}"')
        service.reload()
        readers = Readers(service, name)
        with Load(service.public, readers.report) as writes, Load(service.internal, read_items(titles, allowed=(200, 503)), threads=2) as reads, \
                BaselineLoad(service.internal) as baseline:
            wait_until(lambda: writes.results.count(200) > 50, "load")
            proxy.set(**impairment)
            count_before, reported = len(reads.results), len(writes.results)
            wait_until(lambda: len(reads.results) > count_before + 200 and len(writes.results) > reported + 50, "load", 60)
            proxy.set()
            recovered_at = len(writes.results)
            wait_until(lambda: writes.results[recovered_at:].count(200) > 50, "normal service", 60)
        assert writes.errors == [] and reads.errors == []
        slowest_read_s = max(reply.seconds for reply in reads.results)
        print(f"slowest write {readers.slowest_s:.3f} s, slowest read {slowest_read_s:.3f} s, without a worker {baseline.slowest_s():.3f} s")
        assert baseline.errors == [] and max(readers.slowest_s, slowest_read_s) < SLOWEST_S + 2 * baseline.slowest_s()
        readers.assert_counted_once()
        service.check()


@pytest.mark.latency
def test_requests_do_not_wait_while_the_circuit_breaker_is_open(instance, name):
    service = instance("--no-limits", pm__max_children=1)
    titles = known_items(service, name)
    with Load(service.internal, read_items(titles, allowed=(200, 503)), pause_s=0) as reads:
        wait_until(lambda: len(reads.results) > 100, "load")
        redis = service.pid("redis")
        os.kill(redis, signal.SIGSTOP)
        try:
            wait_until(lambda: service.status()["redis breakers open"] == 1, "an open circuit breaker")
            began = len(reads.results)
            wait_until(lambda: len(reads.results) > began + 2000, "replies while the breaker is open")
            during = sorted(reply.seconds for reply in reads.results[began:])
        finally:
            os.kill(redis, signal.SIGCONT)
        wait_until(lambda: reads.results[-1].status == 200, "normal service")
    assert reads.errors == []
    print(f"open: {len(during)} requests, p99 {during[len(during) * 99 // 100] * 1000:.1f} ms, slowest {during[-1] * 1000:.1f} ms")
    assert during[len(during) * 99 // 100] < SLOWEST_S


def test_a_redis_without_the_needed_commands_is_rejected_with_the_version_that_is_needed(instance):
    service = instance("--no-limits", pm__max_children=1)
    with Proxy(service.redis_socket()) as proxy:
        real = re.search(r"redis_version:([0-9.]+)", service.redis_text("INFO", "server"))[1]
        service.configure(redis__url=f'"{proxy.url}"')
        service.reload()
        failed = service.status()["failed reloads"]
        old = ("6.2." + "9" * len(real))[:len(real)]
        proxy.set(version=old)
        service.signal("freshetd", signal.SIGHUP)
        wait_until(lambda: service.status()["failed reloads"] == failed + 1, "the reload to fail")
        service.expects_acl_denials = True  # of the doctor
        sentence = f"{old} lacks EXPIRE with GT and SET with NX and GET: Freshet needs Redis 7.0 or later, or Valkey"
        assert sentence in service.log()
        doctor = subprocess.run([CTL, "doctor", "--state", service.state], capture_output=True, text=True, check=False, timeout=80).stdout
        assert sentence in doctor and "install Redis 7.0 or later, or Valkey" in doctor, doctor
        proxy.set(version=("7.0." + "9" * len(real))[:len(real)])
        service.reload()


def test_pages_that_run_out_of_time_are_served_without_redis(instance, name):
    """Each round trip is within redis.timeout, but two exceed gateway.request_budget."""
    service = instance("--no-limits", pm__max_children=1)
    known_items(service, name)
    feed = {"action": "load_more", "agent_id": "r", "limit": 3}
    with Proxy(service.redis_socket(), seed=7) as proxy:
        service.configure(redis__url=f'"{proxy.url}"', redis__timeout=500, gateway__request_budget=510)
        service.reload()
        wait_until(lambda: len(service.workers()) == 1, "the old worker to exit")
        client = service.public()
        first = client.post("/api/feed", feed).json()["data"]
        next_page = feed | {"page": first["page"]}
        before = service.status()
        feed_replies = []
        proxy.set(delay_s=(0.35, 0.4))
        for label, reply in (("refresh", client.post("/api/feed", feed | {"action": "refresh", "agent_id": "other"})),
                             ("next", client.post("/api/feed", next_page)),
                             ("peek", client.post("/api/feed", {"action": "peek", "agent_id": "third"})),
                             ("timeline", client.get("/api/waterfall/follow?customerId=r&direction=first")),
                             ("history", client.get("/api/history?userId=r")),
                             ("recommendations", client.get("/api/recommendations?userId=r&limit=3"))):
            assert reply.status == 200, (label, reply)
            if label in ("refresh", "next"):
                feed_replies.append(reply.json()["data"].get("degraded", False))
            if label == "refresh":
                data = reply.json()["data"]
                assert data["items"] == [] and data["has_more"] and data["degraded"] and data["missing"] == "redis"
                assert reply.headers["Freshet-Degraded"] == "true"
            if label == "next" and reply.json()["data"].get("degraded"):
                assert reply.json()["data"]["page"] == first["page"]
        assert service.status()["over budget"] > before["over budget"]
        proxy.set()
        # The page that was not delivered is not lost.
        wait_until(lambda: service.status()["in flight"] <= 1, "the detached handlers to finish")
        after = service.status()
        assert [after[key] - before[key] for key in ("feed pages", "feed pages degraded")] == [len(feed_replies), feed_replies.count(True)]
        second = client.post("/api/feed", next_page).json()["data"]
        assert len(second["items"]) == 3 and not {each["id"] for each in second["items"]} & {each["id"] for each in first["items"]}
        service.configure()
        service.reload()
