"""Static, dynamic and ondemand under real load: the pool grows, shrinks, reloads and replaces workers, and no reader notices."""

import contextlib
import os
import signal
import threading

import pytest

from client import Load
from readers import known_items, read_items
from service import birth, kill_workers, wait_until

# Redis is made to pause; that shall keep requests inside workers, not fail them.
ENDURING = {"redis__timeout": '"2s"', "gateway__request_budget": '"5s"'}
MODES = {
    "static": {"pm__mode": '"static"', "pm__max_children": 3},
    "dynamic": {"pm__mode": '"dynamic"', "pm__max_children": 5, "pm__start_servers": 1, "pm__min_spare_servers": 1, "pm__max_spare_servers": 2},
    "ondemand": {"pm__mode": '"ondemand"', "pm__max_children": 3, "pm__process_idle_timeout": '"2s"'},
}


def living(instance):
    return {pid for pid in instance.workers() if birth(pid)}


def newest(pids):
    """Not one of those that drain, as a rule."""
    return max(pids, key=lambda pid: int(birth(pid) or 0))


@contextlib.contextmanager
def slow_redis(instance):
    """Redis stands still for most of the time, in pieces that no deadline minds: requests stay inside their workers."""
    over = threading.Event()

    def pause():
        while not over.is_set():
            instance.redis("CLIENT", "PAUSE", "300", "ALL")

    thread = threading.Thread(target=pause)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def more(load, by=100):
    seen = len(load.results)
    wait_until(lambda: len(load.results) > seen + by or load.errors, "what the load does", 60)


@pytest.mark.parametrize("mode", MODES)
def test_a_pool_follows_its_load_reloads_and_loses_workers_without_a_failed_get(instance, name, mode):
    pool = instance("--no-limits", **ENDURING, **MODES[mode])
    titles = known_items(pool, name)
    idle, busy = {"static": ({3}, 3), "dynamic": ({1, 2}, 3), "ondemand": ({0}, 1)}[mode]
    wait_until(lambda: len(living(pool)) in idle, f"{idle} workers without load", 60)
    with Load(pool.internal, read_items(titles), threads=12) as load:
        with slow_redis(pool):
            wait_until(lambda: len(living(pool)) >= busy or load.errors, f"{busy} workers under load", 60)
            more(load)
            pool.reload()
            more(load)
        for _ in range(3):
            pool.reload()
            more(load)
        if mode == "static":
            wait_until(lambda: len(living(pool)) == 3, "the old generations to go", 60)
            kill_workers(pool, load, load.results, 5)
        for _ in range(5):
            with contextlib.suppress(ProcessLookupError):  # it may have been about to leave
                os.kill(newest(wait_until(lambda: living(pool), "a worker")), signal.SIGKILL)
            more(load)
        status = pool.status()
    assert load.errors == []
    assert len(load.results) > 1000
    assert status["reloads"] == 4 and status["respawns"] >= 1
    wait_until(lambda: len(living(pool)) in idle, f"{idle} workers after the load", 60)
    assert pool.internal().get("/ping").status == 200  # also from none
    pool.check()
