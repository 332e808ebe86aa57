"""What dies, hangs or is replaced under load costs nobody a wrong answer. Short runs; each ends with the invariants."""

import json
import os
import random
import signal
import threading
import time

from client import Load
from service import birth, rss_kib, wait_until

# A request that waits for Redis ends after 50 ms, its retry too; the rest is what a busy machine adds.
SLOWEST_S = 0.5


class Readers:
    """Events with ids, each of a reader and session of its own, spread over articles; what was acknowledged is remembered."""

    def __init__(self, instance, name, articles=5):
        self.articles = [name("a") for _ in range(articles)]
        self.acknowledged = {article: [] for article in self.articles}
        self.statuses, self.slowest_s = set(), 0.0
        self._instance, self._lock = instance, threading.Lock()

    def report(self, client, turn):
        """One event, repeated with the same event id until it is acknowledged, as a page's retry does."""
        article, dwell = self.articles[turn % len(self.articles)], turn % 1000
        event = f"e{turn}"
        deadline = time.monotonic() + 60
        while True:
            try:
                reply = client.track(article, dwell, userId=f"u{turn}", sessionId=f"s{turn}", eventId=event)
            except OSError:  # nginx itself never goes away in these tests
                raise
            with self._lock:
                self.statuses.add(reply.status)
                self.slowest_s = max(self.slowest_s, reply.seconds)
                if reply.status in (200, 202):
                    self.acknowledged[article].append(dwell)
                    return reply.status
            assert reply.status in (502, 503, 504), reply
            assert time.monotonic() < deadline, "never acknowledged"
            time.sleep(0.01)  # the pace of a client that was told to come back

    def counted(self):
        return {article: (int(self._instance.redis("GET", f"hot:pv:{article}") or 0),
                          int(self._instance.redis("GET", f"hot:dwell:sum:{article}") or 0)) for article in self.articles}

    def expected(self):
        return {article: (len(dwells), sum(dwells)) for article, dwells in self.acknowledged.items()}

    def assert_counted_once(self):
        def settled():
            return self._instance.status()["spooled bytes"] == 0 and self.counted() == self.expected()
        try:
            wait_until(settled, "the spool to be applied", 30)
        except AssertionError:
            assert self.counted() == self.expected()
            raise
        assert sum(len(dwells) for dwells in self.acknowledged.values()) > 50


def known_items(instance, name, count=20):
    """{id: title}: readable by GET, each reply verifiable."""
    titles = {}
    for _ in range(count):
        item = name("i")
        titles[item] = instance.put(item)["title"]
    return titles


def read_items(titles, allowed=(200,)):
    """A load that asks for known items and looks whether the reply is that item's."""
    ids = list(titles)

    def work(client, turn):
        item = ids[turn % len(ids)]
        reply = client.get(f"/api/items/{item}")
        assert reply.status in allowed, reply
        if reply.status == 200:
            got = reply.json()
            assert (got["id"], got["title"]) == (item, titles[item]), "another item's reply"
        return reply

    return work


def replaced(instance, before, dead):
    now = set(instance.workers())
    return dead not in now and len(now) == len(before) and instance.status()["idle processes"] + instance.status()["active processes"] == len(before)


# --- workers


def test_workers_killed_in_the_middle_of_gets_cost_no_client_anything(own_service, name):
    titles, respawned_s = known_items(own_service, name), []
    with Load(own_service.internal, read_items(titles), threads=6) as load:
        for _ in range(30):
            before = set(own_service.workers())
            wait_until(lambda: len(own_service.workers()) == len(before), "workers")
            victim = random.choice(sorted(before))
            seen = len(load.results)
            wait_until(lambda seen=seen: len(load.results) > seen + 20 or load.errors, "load")
            os.kill(victim, signal.SIGKILL)
            began = time.monotonic()
            wait_until(lambda before=before: set(own_service.workers()) - before, "a new worker")
            respawned_s.append(time.monotonic() - began)
            wait_until(lambda before=before, victim=victim: replaced(own_service, before, victim), "the pool to be whole")
    assert load.errors == []
    assert len(load.results) > 600
    assert own_service.status()["respawns"] >= 30
    assert sorted(respawned_s)[len(respawned_s) // 2] < 0.2, respawned_s
    own_service.check()


def test_workers_killed_in_the_middle_of_posts_count_each_event_once(own_service, name):
    readers = Readers(own_service, name)
    with Load(own_service.public, readers.report, threads=6) as load:
        for _ in range(15):
            before = set(own_service.workers())
            seen = len(load.results)
            wait_until(lambda seen=seen: len(load.results) > seen + 30 or load.errors, "load")
            victim = random.choice(sorted(before))
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda before=before, victim=victim: replaced(own_service, before, victim), "the pool to be whole")
    assert load.errors == []
    assert readers.statuses <= {200, 502}
    readers.assert_counted_once()
    own_service.check()


def test_without_their_master_workers_end(own_service):
    workers = {pid: birth(pid) for pid in own_service.workers()}
    assert workers
    own_service.signal("freshetd", signal.SIGKILL)
    wait_until(lambda: not any(birth(pid) == began for pid, began in workers.items()), "the workers' end", 5)


# --- reload and stop


def mixed(instance, name):
    titles, readers = known_items(instance, name), Readers(instance, name)
    reads = read_items(titles)

    def work(client, turn):
        if turn % 2:
            return reads(client, turn).status
        return readers.report(client, turn)

    return readers, work


def test_ten_reloads_under_load_fail_no_request(own_service, name):
    readers, work = mixed(own_service, name)
    with Load(own_service.internal, work, threads=6) as load:
        for number in range(10):
            own_service.reload()
            seen = len(load.results)
            wait_until(lambda seen=seen: len(load.results) > seen + 50 or load.errors, f"load after reload {number}")
    assert load.errors == []
    assert set(load.results) == {200} and readers.statuses == {200}
    status = own_service.status()
    assert (status["reloads"], status["failed reloads"]) == (10, 0)
    readers.assert_counted_once()
    # The old generations go as nginx lets go of their connections.
    wait_until(lambda: len(own_service.workers()) == own_service.status()["total processes"] == len(os.sched_getaffinity(0)), "the old to go", 45)
    own_service.check()


def test_a_broken_configuration_leaves_the_old_one_serving(own_service, name):
    readers, work = mixed(own_service, name)
    workers, generation = own_service.workers(), own_service.status()["generation"]
    with Load(own_service.internal, work) as load:
        for broken in ({"pm__max_children": '"many"'}, {"no__such__name": "1"}, {"redis__timeout": '"3s"'}, {"list__slice": '"'}):
            failed = own_service.status()["failed reloads"]
            own_service.configure(**broken)
            own_service.signal("freshetd", signal.SIGHUP)
            wait_until(lambda failed=failed: own_service.status()["failed reloads"] == failed + 1, f"the refusal of {broken}")
        seen = len(load.results)
        wait_until(lambda: len(load.results) > seen + 50 or load.errors, "load")
    assert load.errors == [] and set(load.results) == {200}
    assert (own_service.workers(), own_service.status()["generation"]) == (workers, generation)
    assert "test.toml" in own_service.log()
    own_service.configure(pm__max_children=1)
    own_service.reload()
    wait_until(lambda: own_service.status()["total processes"] == 1, "one worker", 45)


def test_a_stop_under_load_answers_whatever_it_carried_out(own_service, name):
    article, lock, answered = name("a"), threading.Lock(), []
    stopping = threading.Event()

    def work(client, turn):
        reply = client.track(article, 0, userId=f"u{turn}", sessionId=f"s{turn}")
        # After the stop no worker takes new connections.
        assert reply.status == 200 or (reply.status in (502, 503, 504) and stopping.is_set()), reply
        if reply.status == 200:
            with lock:
                answered.append(turn)
        return reply.status

    master, born = own_service.pid("freshetd"), birth(own_service.pid("freshetd"))
    with Load(own_service.internal, work, threads=6) as load:
        wait_until(lambda: len(load.results) > 200 or load.errors, "load")
        stopping.set()
        own_service.signal("freshetd", signal.SIGQUIT)
        wait_until(lambda: birth(master) != born, "the master's end", 20)
    assert load.errors == []
    assert int(own_service.redis("GET", f"hot:pv:{article}")) == len(answered) > 200


# --- Redis


def test_without_redis_reads_go_on_and_writes_wait_their_turn(shipped_service, name):
    readers, titles = Readers(shipped_service, name), known_items(shipped_service, name)
    shipped_service.redis("CONFIG", "SET", "appendfsync", "always")  # what Redis acknowledged it shall have kept
    hot = shipped_service.internal().get("/api/hot?model=engagement")
    assert hot.status == 200 and "Freshet-Degraded" not in hot.headers
    lists = []

    def read_lists(client, _):
        reply = client.get("/api/hot?model=engagement")
        assert reply.status == 200 and isinstance(reply.json(), list), reply
        lists.append(("Freshet-Degraded" in reply.headers, reply.seconds))
        return reply

    with Load(shipped_service.public, readers.report) as writes, Load(shipped_service.internal, read_lists, threads=2) as reads, \
            Load(shipped_service.internal, read_items(titles, allowed=(200, 503)), threads=2) as items:
        wait_until(lambda: len(writes.results) > 100, "load")
        pid = shipped_service.pid("redis")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: birth(pid) is None, "Redis' end")
        wait_until(lambda: writes.results.count(202) > 100, "queued writes")
        wait_until(lambda: any(degraded for degraded, _ in lists), "a degraded list")
        os.kill(shipped_service.workers()[0], signal.SIGKILL)  # what it acknowledged is in its spool
        seen = len(writes.results)
        wait_until(lambda: len(writes.results) > seen + 50, "load")
        shipped_service.restart_redis()
        back = len(writes.results)
        wait_until(lambda: 200 in writes.results[back:], "a counted write")
        wait_until(lambda: lists and not lists[-1][0], "a fresh list")
    assert writes.errors == [] and reads.errors == [] and items.errors == []
    assert readers.statuses <= {200, 202, 502, 503}
    assert max(seconds for _, seconds in lists) < SLOWEST_S
    readers.assert_counted_once()
    assert shipped_service.status()["replayed"] > 0
    shipped_service.check()


def test_a_reply_to_a_queued_write_says_so(own_service, name):
    client, article = own_service.public(), name("a")
    os.kill(own_service.pid("redis"), signal.SIGKILL)
    wait_until(lambda: own_service.status()["redis ready"] == 0, "the loss of Redis to be noticed")
    for reply in (client.track(article, 1, userId="u"), client.view(article, "f"), client.track(article, 1, userId="u", eventId="e")):
        assert (reply.status, reply.json()) == (202, {"ok": True, "queued": True})
    assert own_service.internal().put(f"/api/items/{article}", {"title": "t", "published_at": 1}).status == 503
    reply = own_service.internal().get(f"/api/articles/{article}/stats")
    assert reply.status == 503 and int(reply.headers["Retry-After"]) >= 1
    assert own_service.internal().get("/health/ready").status == 503
    assert own_service.internal().get("/health/live").status == 200
    own_service.restart_redis()
    wait_until(lambda: own_service.redis("GET", f"hot:pv:{article}") and own_service.redis("HGET", f"hot:views:{article}", "pv"), "the events")
    wait_until(lambda: own_service.internal().get("/health/ready").status == 200, "readiness")
    assert own_service.redis("HGET", f"hot:views:{article}", "pv") == "1"
    own_service.check()


def test_a_full_spool_refuses_writes_with_retry_after(instance, name):
    service, article = instance("--no-limits", spool__max_bytes=65536), name("a")
    os.kill(service.pid("redis"), signal.SIGKILL)
    wait_until(lambda: service.status()["redis ready"] == 0, "the loss of Redis to be noticed")
    client, accepted = service.public(), 0
    for turn in range(2000):
        reply = client.track(article, 1, userId=f"u{turn}", sessionId=f"s{turn}")
        if reply.status == 503:
            break
        assert reply.status == 202, reply
        accepted += 1
    assert reply.status == 503 and int(reply.headers["Retry-After"]) >= 1
    assert service.status()["refused"]["spool_full"] >= 1
    service.restart_redis()
    wait_until(lambda: int(service.redis("GET", f"hot:pv:{article}") or 0) == accepted, "the acknowledged events")


def test_a_redis_that_hangs_holds_nobody_up_and_mixes_nothing_up(shipped_service, name):
    readers, titles = Readers(shipped_service, name), known_items(shipped_service, name)
    with Load(shipped_service.public, readers.report) as writes, \
            Load(shipped_service.internal, read_items(titles, allowed=(200, 503))) as items:
        wait_until(lambda: len(items.results) > 100 and len(writes.results) > 100, "load")
        redis = shipped_service.pid("redis")
        try:
            os.kill(redis, signal.SIGSTOP)
            end = time.monotonic() + 3
            wait_until(lambda: time.monotonic() > end, "three seconds")
            during = [reply.status for reply in items.results[-20:]]
        finally:
            os.kill(redis, signal.SIGCONT)
        wait_until(lambda: items.results[-1].status == 200 and writes.results[-1] == 200, "normal service")
        seen = len(items.results)
        wait_until(lambda: len(items.results) > seen + 100 or items.errors, "load")
    assert items.errors == [] and writes.errors == []
    assert during == [503] * 20
    assert max(reply.seconds for reply in items.results) < SLOWEST_S
    assert readers.slowest_s < SLOWEST_S
    readers.assert_counted_once()
    shipped_service.check()


def test_flushed_scripts_are_loaded_again_unseen(own_service, name):
    readers, work = mixed(own_service, name)
    with Load(own_service.internal, work) as load:
        for _ in range(20):
            seen = len(load.results)
            wait_until(lambda seen=seen: len(load.results) > seen + 20 or load.errors, "load")
            own_service.redis("SCRIPT", "FLUSH")
    assert load.errors == [] and set(load.results) == {200} and readers.statuses == {200}
    readers.assert_counted_once()


def test_a_redis_without_memory_is_a_503_or_a_queue_and_never_a_500(own_service, name):
    readers, client = Readers(own_service, name), own_service.public()
    item = known_items(own_service, name, 1)
    for turn in range(60):
        readers.report(client, turn)
    own_service.redis("CONFIG", "SET", "maxmemory", "1")
    statuses = {client.track(name("o"), 1, userId="u", eventId=f"o{turn}").status for turn in range(20)}
    statuses |= {client.view(name("o"), "f").status for _ in range(20)}
    assert statuses <= {202, 503}, statuses
    # A script whose first write frees memory may go on.
    assert own_service.internal().put(f"/api/items/{name('i')}", {"title": "t", "published_at": 1}).status in (200, 503)
    assert own_service.internal().get("/api/hot").status == 200
    assert own_service.internal().get(f"/api/items/{next(iter(item))}").status == 200
    own_service.redis("CONFIG", "SET", "maxmemory", "0")
    assert wait_until(lambda: client.track(name("o"), 1, userId="u").status == 200, "normal service")
    readers.assert_counted_once()
    own_service.check()


def test_memory_of_workers_is_flat_over_mixed_requests(own_service, name):
    _, work = mixed(own_service, name)
    with Load(own_service.internal, work) as load:
        wait_until(lambda: len(load.results) > 4000 or load.errors, "a warm service", 60)
        before = {pid: rss_kib(pid) for pid in own_service.workers()}
        seen = len(load.results)
        wait_until(lambda: len(load.results) > seen + 8000 or load.errors, "load", 120)
        after = {pid: rss_kib(pid) for pid in own_service.workers()}
    assert load.errors == [] and set(after) == set(before)
    for pid, kib in after.items():
        assert kib < before[pid] * 1.05 + 512, json.dumps([before, after])
