"""Workers and masters that die, reload or stop under load cost nobody a wrong answer. Short runs; most end with the invariants."""

import json
import os
import random
import signal
import threading
import time

import pytest

from client import Load
from fastcgi import Connection
from readers import Readers, known_items, mixed, read_items
from service import birth, children, rss_kib, wait_until


def replaced(instance, before, dead):
    now = set(instance.workers())
    return dead not in now and len(now) == len(before) and instance.status()["idle processes"] + instance.status()["active processes"] == len(before)


# --- workers


@pytest.mark.latency
def test_workers_killed_in_the_middle_of_gets_cost_no_client_anything(own_service, name):
    titles, respawned_s = known_items(own_service, name), []
    with Load(own_service.internal, read_items(titles), threads=6) as load:
        for _ in range(30):
            before = set(own_service.workers())
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
    assert min(respawned_s) < 0.1, respawned_s  # nothing in the service waits; the rest is the machine's
    own_service.check()


def test_what_killed_workers_counted_and_did_not_place_is_placed_by_their_successors(own_service, name):
    for _ in range(10):  # once it must be quick enough: a note is forgotten after two seconds
        article = name("a")
        began = time.monotonic()
        own_service.public().track(article, 1000, sessionId=name("s"))
        own_service.await_placed()
        # As if it had not been placed; and nobody walks over all articles.
        own_service.redis("SET", "hot:rank:turn", "test", "EX", 600)
        own_service.redis("ZREM", "hot:rank", article)
        own_service.redis("HDEL", "hot:placed", article)
        for victim in own_service.workers():
            os.kill(victim, signal.SIGKILL)
        if time.monotonic() - began < 1.5:
            break
    wait_until(lambda: own_service.redis("ZSCORE", "hot:rank", article), "the article to be placed")
    wait_until(lambda: "crash_journal_replayed" in own_service.log(), "what it says when Redis has answered")


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


def test_workers_that_drain_leave_new_connections_to_their_successors(own_service):
    old, kept = own_service.workers(), [Connection(own_service.socket_path) for _ in range(8)]
    for each in kept:
        assert each.ask()[0] == 200
    own_service.reload()
    assert set(own_service.workers()) & set(old), "a worker waits for those who keep a connection"
    for _ in range(50):
        with Connection(own_service.socket_path, timeout=10) as one:
            assert one.ask()[0] == 200
    for each in kept:
        each.close()


def test_without_their_master_workers_end(own_service):
    workers = {pid: birth(pid) for pid in own_service.workers()}
    others = {pid: birth(pid) for pid in children(own_service.pid("freshetd")) if pid not in workers}
    assert workers
    own_service.signal("freshetd", signal.SIGKILL)
    wait_until(lambda: not any(birth(pid) == began for pid, began in workers.items()), "the workers' end", 5)
    wait_until(lambda: not any(birth(pid) == began for pid, began in others.items()), "the end of recorder and status page")


# --- reload and stop


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
    wait_until(lambda: len(own_service.workers()) == own_service.status()["total processes"] == max(2, len(os.sched_getaffinity(0))), "the old to go", 45)
    own_service.check()


def test_a_broken_configuration_leaves_the_old_one_serving(own_service, name):
    readers, work = mixed(own_service, name)
    workers, generation = own_service.workers(), own_service.status()["generation"]
    with Load(own_service.internal, work) as load:
        for broken in ({"pm__max_children": '"many"'}, {"no__such__name": "1"}, {"redis__timeout": '"3s"'}, {"list__rebuild_interval": '"'}):
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
    assert int(own_service.redis("HGET", f"hot:article:{{{article}}}", "pv")) == len(answered) > 200


# --- time


def test_memory_of_workers_is_flat_over_mixed_requests(own_service, name):
    _, work = mixed(own_service, name)
    with Load(own_service.internal, work) as load:
        def warm():
            processes = own_service.internal().get("/status?json&full").json()["processes"]
            return len(load.results) > 4000 and all(process["requests"] > 500 for process in processes)

        wait_until(lambda: load.errors or warm(), "a warm service", 60)
        before = {pid: rss_kib(pid) for pid in own_service.workers()}
        seen = len(load.results)
        wait_until(lambda: len(load.results) > seen + 8000 or load.errors, "load", 120)
        after = {pid: rss_kib(pid) for pid in own_service.workers()}
    assert load.errors == [] and set(after) == set(before)
    for pid, kib in after.items():
        assert kib < before[pid] * 1.05 + 512, json.dumps([before, after])
