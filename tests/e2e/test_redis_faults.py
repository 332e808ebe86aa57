"""Redis crashes, hangs, loses its scripts or runs out of memory: reads continue, acknowledged writes count once, and
replies are never mixed up.
"""

import os
import signal

import pytest

from client import BaselineLoad, Load, assert_problem
from readers import Readers, known_items, mixed_load, read_items
from service import wait_until

# Requests that wait for Redis end after 50 ms, and so does their retry. The delay of the machine is measured
# separately.
SLOWEST_S = 0.5


@pytest.mark.latency
def test_without_redis_reads_continue_and_writes_are_queued(shipped_service, name):
    readers, titles = Readers(shipped_service, name), known_items(shipped_service, name)
    def hot():
        reply = shipped_service.internal().get("/api/hot?model=engagement")
        assert reply.status == 200, reply
        return reply

    wait_until(lambda: "Freshet-Degraded" not in hot().headers, "a list")
    lists = []

    def read_lists(client, _):
        reply = client.get("/api/hot?model=engagement")
        assert reply.status == 200 and isinstance(reply.json(), list), reply
        lists.append(("Freshet-Degraded" in reply.headers, reply.seconds))
        return reply

    with Load(shipped_service.public, readers.report) as writes, Load(shipped_service.internal, read_lists, threads=2) as reads, \
            Load(shipped_service.internal, read_items(titles, allowed=(200, 503)), threads=2) as items, BaselineLoad(shipped_service.internal) as baseline:
        wait_until(lambda: len(writes.results) > 100, "load")
        shipped_service.kill_redis()
        wait_until(lambda: writes.results.count(202) > 100, "queued writes")
        wait_until(lambda: any(degraded for degraded, _ in lists), "a degraded list")
        os.kill(shipped_service.workers()[0], signal.SIGKILL)  # its acknowledged events are in its spool
        count_before = len(writes.results)
        wait_until(lambda: len(writes.results) > count_before + 50, "load")
        shipped_service.restart_redis()
        restarted_at = len(writes.results)
        wait_until(lambda: 200 in writes.results[restarted_at:], "a counted write")
        wait_until(lambda: lists and not lists[-1][0], "a fresh list")
    assert writes.errors == [] and reads.errors == [] and items.errors == []
    assert readers.statuses <= {200, 202, 502, 503}
    assert baseline.errors == [] and max(seconds for _, seconds in lists) < SLOWEST_S + 2 * baseline.slowest_s()
    readers.assert_counted_once()
    assert shipped_service.status()["replayed"] > 0
    shipped_service.check()


def test_a_reply_to_a_queued_write_says_so(own_service, name):
    client, article = own_service.public(), name("a")
    own_service.make_redis_unavailable()
    for reply in (client.track(article, 1, userId="u"), client.view(article, "f"), client.track(article, 1, userId="u", eventId="e")):
        assert (reply.status, reply.json()) == (202, {"ok": True, "queued": True})
    assert own_service.internal().put(f"/api/items/{article}", {"title": "t", "published_at": 1}).status == 503
    reply = own_service.internal().get(f"/api/articles/{article}/stats")
    assert reply.status == 503 and int(reply.headers["Retry-After"]) >= 1
    assert own_service.internal().get("/health/ready").status == 503
    assert own_service.internal().get("/health/live").status == 200
    own_service.restart_redis()
    # A report counts as a view, too.
    wait_until(lambda: own_service.redis("HMGET", f"hot:article:{{{article}}}", "pv", "views") == ["1", "2"], "the events to be counted")
    wait_until(lambda: own_service.internal().get("/health/ready").status == 200, "the service to be ready")
    assert own_service.redis("HMGET", f"hot:article:{{{article}}}", "pv", "views") == ["1", "2"]
    own_service.check()


def test_a_full_spool_refuses_writes_with_retry_after(instance, name):
    service, article = instance("--no-limits", spool__max_bytes=65536), name("a")
    service.make_redis_unavailable()
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
    wait_until(lambda: int(service.redis("HGET", f"hot:article:{{{article}}}", "pv") or 0) == accepted, "the acknowledged events to be counted")


@pytest.mark.latency
def test_a_hanging_redis_neither_delays_requests_nor_mixes_up_replies(shipped_service, name):
    readers, titles = Readers(shipped_service, name), known_items(shipped_service, name)
    with Load(shipped_service.public, readers.report) as writes, BaselineLoad(shipped_service.internal) as baseline, \
            Load(shipped_service.internal, read_items(titles, allowed=(200, 503))) as items:
        wait_until(lambda: len(items.results) > 100 and len(writes.results) > 100, "load")
        redis = shipped_service.pid("redis")
        try:
            os.kill(redis, signal.SIGSTOP)
            wait_until(lambda: shipped_service.status()["redis breakers open"] > 0, "an open breaker")
            count_before = len(items.results)
            wait_until(lambda: len(items.results) > count_before + 200, "load")
            during = [reply.status for reply in items.results[-20:]]
        finally:
            os.kill(redis, signal.SIGCONT)
        wait_until(lambda: items.results[-1].status == 200 and writes.results[-1] == 200, "normal service")
        count_before = len(items.results)
        wait_until(lambda: len(items.results) > count_before + 100 or items.errors, "load")
    assert items.errors == [] and writes.errors == []
    assert during == [503] * 20
    assert baseline.errors == []
    assert max(readers.slowest_s, *(reply.seconds for reply in items.results)) < SLOWEST_S + 2 * baseline.slowest_s()
    readers.assert_counted_once()
    shipped_service.check()


def test_a_write_with_an_unknown_outcome_is_reported_and_counted_as_a_timeout(own_service, name):
    before = own_service.status()["refused"]
    redis = own_service.pid("redis")
    try:
        os.kill(redis, signal.SIGSTOP)
        reply = own_service.internal().put(f"/api/items/{name('i')}", {"title": "t", "published_at": 1})
    finally:
        os.kill(redis, signal.SIGCONT)
    assert_problem(reply, 503)
    after = own_service.status()["refused"]
    assert (after["deadline"], after["redis_unavailable"]) == (before["deadline"] + 1, before["redis_unavailable"])


def test_flushed_scripts_are_reloaded_transparently(own_service, name):
    readers, work = mixed_load(own_service, name)
    with Load(own_service.internal, work) as load:
        for _ in range(20):
            count_before = len(load.results)
            wait_until(lambda count_before=count_before: len(load.results) > count_before + 20 or load.errors, "load")
            own_service.redis("SCRIPT", "FLUSH")
    assert load.errors == [] and set(load.results) == {200} and readers.statuses == {200}
    readers.assert_counted_once()


def test_writes_to_a_redis_without_memory_are_queued_or_refused_and_never_a_500(own_service, name):
    readers, client = Readers(own_service, name), own_service.public()
    item = known_items(own_service, name, 1)
    for turn in range(60):
        readers.report(client, turn)
    own_service.redis("CONFIG", "SET", "maxmemory", "1")
    statuses = {client.track(name("o"), 1, userId="u", eventId=f"o{turn}").status for turn in range(20)}
    statuses |= {client.view(name("o"), "f").status for _ in range(20)}
    assert statuses <= {202, 503}, statuses
    # A script whose first write frees memory may continue.
    assert own_service.internal().put(f"/api/items/{name('i')}", {"title": "t", "published_at": 1}).status in (200, 503)
    assert own_service.internal().get("/api/hot").status == 200
    assert own_service.internal().get(f"/api/items/{next(iter(item))}").status == 200
    own_service.redis("CONFIG", "SET", "maxmemory", "0")
    assert wait_until(lambda: client.track(name("o"), 1, userId="u").status == 200, "normal service")
    readers.assert_counted_once()
    own_service.check()
