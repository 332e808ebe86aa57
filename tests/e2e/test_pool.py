"""Static, dynamic and ondemand pools under real load: they grow, shrink, reload and replace workers without a failed request."""

import contextlib
import os
import signal
import threading

import pytest

from client import Load
from readers import known_items, read_items
from service import birth, kill_workers, wait_until

# Redis is paused to keep requests in the workers; they must not fail.
LONG_REDIS_TIMEOUTS = {"redis__timeout": '"2s"', "gateway__request_budget": '"5s"'}
MODES = {
    "static": {"pm__mode": '"static"', "pm__max_children": 3},
    "dynamic": {"pm__mode": '"dynamic"', "pm__max_children": 5, "pm__start_servers": 1, "pm__min_spare_servers": 1, "pm__max_spare_servers": 2},
    "ondemand": {"pm__mode": '"ondemand"', "pm__max_children": 3, "pm__process_idle_timeout": '"2s"'},
}


def running_workers(instance):
    return {pid for pid in instance.workers() if birth(pid)}


def newest(pids):
    """The worker that started last; usually one that is not draining."""
    return max(pids, key=lambda pid: int(birth(pid) or 0))


@contextlib.contextmanager
def paused_redis(instance):
    """Pauses Redis most of the time, each time for less than a timeout, so that requests stay in their workers."""
    finished = threading.Event()

    def pause():
        while not finished.is_set():
            instance.redis("CLIENT", "PAUSE", "300", "ALL")

    thread = threading.Thread(target=pause)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def wait_for_progress(load, by=100):
    count_before = len(load.results)
    wait_until(lambda: len(load.results) > count_before + by or load.errors, "progress of the load", 60)


@pytest.mark.parametrize("mode", MODES)
def test_a_pool_scales_reloads_and_replaces_workers_without_a_failed_get(instance, name, mode):
    pool = instance("--no-limits", **LONG_REDIS_TIMEOUTS, **MODES[mode])
    titles = known_items(pool, name)
    idle, busy = {"static": ({3}, 3), "dynamic": ({1, 2}, 3), "ondemand": ({0}, 1)}[mode]
    wait_until(lambda: len(running_workers(pool)) in idle, f"{idle} workers without load", 60)
    with Load(pool.internal, read_items(titles), threads=12) as load:
        with paused_redis(pool):
            wait_until(lambda: len(running_workers(pool)) >= busy or load.errors, f"{busy} workers under load", 60)
            wait_for_progress(load)
            pool.reload()
            wait_for_progress(load)
        for _ in range(3):
            pool.reload()
            wait_for_progress(load)
        if mode == "static":
            wait_until(lambda: len(running_workers(pool)) == 3, "the old generations to exit", 60)
            kill_workers(pool, load, load.results, 5)
        for _ in range(5):
            with contextlib.suppress(ProcessLookupError):  # it may be exiting already
                os.kill(newest(wait_until(lambda: running_workers(pool), "a worker")), signal.SIGKILL)
            wait_for_progress(load)
        status = pool.status()
    assert load.errors == []
    assert len(load.results) > 1000
    assert status["reloads"] == 4 and status["respawns"] >= 1
    wait_until(lambda: len(running_workers(pool)) in idle, f"{idle} workers after the load", 60)
    assert pool.internal().get("/ping").status == 200  # also if there was no worker
    pool.check()
