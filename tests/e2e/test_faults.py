"""Workers and masters that crash, reload or stop under load never cause a wrong reply. Short runs; most end with a check
of the invariants.
"""

import json
import os
import random
import signal
import threading
import time

import pytest

from client import Load
from fastcgi import Connection
from readers import Readers, known_items, mixed_load, read_items
from service import birth, children, rss_kib, wait_until


def is_replaced(instance, before, dead):
    now = set(instance.workers())
    return dead not in now and len(now) == len(before) and instance.status()["idle processes"] + instance.status()["active processes"] == len(before)


# --- workers


@pytest.mark.latency
def test_workers_killed_during_gets_fail_no_request(own_service, name):
    titles, respawned_s = known_items(own_service, name), []
    with Load(own_service.internal, read_items(titles), threads=6) as load:
        for _ in range(30):
            before = set(own_service.workers())
            victim = random.choice(sorted(before))
            count_before = len(load.results)
            wait_until(lambda count_before=count_before: len(load.results) > count_before + 20 or load.errors, "load")
            os.kill(victim, signal.SIGKILL)
            began = time.monotonic()
            wait_until(lambda before=before: set(own_service.workers()) - before, "a new worker")
            respawned_s.append(time.monotonic() - began)
            wait_until(lambda before=before, victim=victim: is_replaced(own_service, before, victim), "a complete pool")
    assert load.errors == []
    assert len(load.results) > 600
    assert own_service.status()["respawns"] >= 30
    assert min(respawned_s) < 0.1, respawned_s  # the minimum excludes delays of the machine
    own_service.check()


def test_rank_updates_lost_by_killed_workers_are_replayed_by_their_successors(own_service, name):
    for _ in range(10):  # repeated if the machine is too slow: journal entries expire after two seconds
        article = name("a")
        began = time.monotonic()
        own_service.public().track(article, 1000, sessionId=name("s"))
        own_service.wait_for_background_writes()
        # Simulates a missing rank update, and holds the maintenance turn so that no worker repairs it by a scan.
        own_service.redis("SET", "hot:rank:turn", "test", "EX", 600)
        own_service.redis("ZREM", "hot:rank", article)
        own_service.redis("HDEL", "hot:placed", article)
        for victim in own_service.workers():
            os.kill(victim, signal.SIGKILL)
        if time.monotonic() - began < 1.5:
            break
    wait_until(lambda: own_service.redis("ZSCORE", "hot:rank", article), "the article to be ranked")
    wait_until(lambda: "articles_ranked_again" in own_service.log(), "the replay in the log")


def test_workers_killed_during_posts_count_each_event_once(own_service, name):
    readers = Readers(own_service, name)
    with Load(own_service.public, readers.report, threads=6) as load:
        for _ in range(15):
            before = set(own_service.workers())
            count_before = len(load.results)
            wait_until(lambda count_before=count_before: len(load.results) > count_before + 30 or load.errors, "load")
            victim = random.choice(sorted(before))
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda before=before, victim=victim: is_replaced(own_service, before, victim), "a complete pool")
    assert load.errors == []
    assert readers.statuses <= {200, 502}
    readers.assert_counted_once()
    own_service.check()


def test_draining_workers_leave_new_connections_to_their_successors(own_service):
    old_workers, connections = own_service.workers(), [Connection(own_service.socket_path) for _ in range(8)]
    for each in connections:
        assert each.request()[0] == 200
    own_service.reload()
    assert set(own_service.workers()) & set(old_workers), "the old workers did not wait for open connections"
    for _ in range(50):
        with Connection(own_service.socket_path, timeout=10) as one:
            assert one.request()[0] == 200
    for each in connections:
        each.close()


def test_workers_exit_when_their_master_dies(own_service):
    workers = {pid: birth(pid) for pid in own_service.workers()}
    others = {pid: birth(pid) for pid in children(own_service.pid("freshetd")) if pid not in workers}
    assert workers
    own_service.signal("freshetd", signal.SIGKILL)
    wait_until(lambda: not any(birth(pid) == began for pid, began in workers.items()), "the workers to exit", 5)
    wait_until(lambda: not any(birth(pid) == began for pid, began in others.items()), "the recorder and the status process to exit")


# --- reload and stop


def test_ten_reloads_under_load_fail_no_request(own_service, name):
    readers, work = mixed_load(own_service, name)
    with Load(own_service.internal, work, threads=6) as load:
        for number in range(10):
            own_service.reload()
            count_before = len(load.results)
            wait_until(lambda count_before=count_before: len(load.results) > count_before + 50 or load.errors, f"load after reload {number}")
    assert load.errors == []
    assert set(load.results) == {200} and readers.statuses == {200}
    status = own_service.status()
    assert (status["reloads"], status["failed reloads"]) == (10, 0)
    readers.assert_counted_once()
    # The old generations exit as nginx closes its connections to them.
    wait_until(lambda: len(own_service.workers()) == own_service.status()["total processes"] == max(2, len(os.sched_getaffinity(0))), "the old workers to exit", 45)
    own_service.check()


def test_an_invalid_configuration_leaves_the_old_one_in_use(own_service, name):
    readers, work = mixed_load(own_service, name)
    workers, generation = own_service.workers(), own_service.status()["generation"]
    with Load(own_service.internal, work) as load:
        for broken in ({"pm__max_children": '"many"'}, {"no__such__name": "1"}, {"redis__timeout": '"3s"'}, {"list__rebuild_interval": '"'}):
            failed = own_service.status()["failed reloads"]
            own_service.configure(**broken)
            own_service.signal("freshetd", signal.SIGHUP)
            wait_until(lambda failed=failed: own_service.status()["failed reloads"] == failed + 1, f"{broken} to be refused")
        count_before = len(load.results)
        wait_until(lambda: len(load.results) > count_before + 50 or load.errors, "load")
    assert load.errors == [] and set(load.results) == {200}
    assert (own_service.workers(), own_service.status()["generation"]) == (workers, generation)
    assert "test.toml" in own_service.log()
    own_service.configure(pm__max_children=1)
    own_service.reload()
    wait_until(lambda: own_service.status()["total processes"] == 1, "one worker", 45)


def test_a_stop_under_load_answers_every_request_that_was_executed(own_service, name):
    article, lock, answered = name("a"), threading.Lock(), []
    stopping = threading.Event()

    def work(client, turn):
        reply = client.track(article, 0, userId=f"u{turn}", sessionId=f"s{turn}")
        # After the stop, no worker accepts new connections.
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
        wait_until(lambda: birth(master) != born, "the master to exit", 20)
    assert load.errors == []
    assert int(own_service.redis("HGET", f"hot:article:{{{article}}}", "pv")) == len(answered) > 200


# --- memory


def test_memory_of_workers_stays_flat_under_mixed_requests(own_service, name):
    _, work = mixed_load(own_service, name)
    with Load(own_service.internal, work) as load:
        def warm():
            processes = own_service.internal().get("/status?json&full").json()["processes"]
            return len(load.results) > 4000 and all(process["requests"] > 500 for process in processes)

        wait_until(lambda: load.errors or warm(), "the warm-up", 60)
        before = {pid: rss_kib(pid) for pid in own_service.workers()}
        count_before = len(load.results)
        wait_until(lambda: len(load.results) > count_before + 8000 or load.errors, "load", 120)
        after = {pid: rss_kib(pid) for pid in own_service.workers()}
    assert load.errors == [] and set(after) == set(before)
    for pid, kib in after.items():
        assert kib < before[pid] * 1.05 + 512, json.dumps([before, after])
