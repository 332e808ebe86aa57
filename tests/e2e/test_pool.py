"""Static, dynamic and ondemand under real load: the pool grows, shrinks, reloads and replaces workers, and no reader notices."""

import contextlib
import os
import resource
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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit, reason", [({"pm__max_requests": 300}, "requests"), ({"pm__max_rss": '"1M"'}, "memory")])
def test_workers_that_had_enough_are_replaced_without_a_failed_get(instance, name, mode, limit, reason):
    pool = instance("--no-limits", **ENDURING, **MODES[mode], **limit)
    titles = known_items(pool, name)
    first = living(pool)
    with Load(pool.internal, read_items(titles), threads=6) as load:
        wait_until(lambda: load.errors or (pool.log().count(f"event=worker_recycles reason={reason}") > 2 and first - living(pool)),
                   "other workers", 90)
        more(load)
    assert load.errors == []
    assert pool.status()["respawns"] == 0


def stat(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def core_limit(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        return next(line.split()[4] for line in file if line.startswith("Max core file size"))


def test_workers_run_where_and_how_the_configuration_says(instance):
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    core = 8192 if hard == resource.RLIM_INFINITY or hard >= 8192 else 0
    pool = instance("--no-limits", **ENDURING, pm__max_children=2, pm__max_requests=20, chdir='"/usr"', process__priority=3, rlimit_core=core,
                    env='{ TZ = "Asia/Kathmandu", NOTHING = "$FRESHET_NO_SUCH_VARIABLE" }')
    for pid in (*living(pool), pool.recorder()):
        assert os.readlink(f"/proc/{pid}/cwd") == "/usr"
        assert stat(pid)[16] == "3"
        assert core_limit(pid) == str(core)
    master = pool.pid("freshetd")
    assert stat(master)[16] == "3" and os.readlink(f"/proc/{master}/cwd") != "/usr"
    client = pool.internal()
    wait_until(lambda: client.get("/ping").status == 200 and "worker_recycles" in pool.log(), "a line from a worker")
    assert next(line for line in pool.log().splitlines() if "worker_recycles" in line).split()[0].endswith("+05:45")
    assert "FRESHET_NO_SUCH_VARIABLE" not in pool.log() and "env takes the value of a variable" in pool.log()


def leads(pid):
    """Where stdout and stderr of the process go."""
    return {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (1, 2)}


@pytest.mark.parametrize("caught", [True, False])
def test_stdout_and_stderr_of_all_children_lead_to_the_log_or_nowhere_also_after_it_was_reopened(instance, caught):
    pool = instance("--no-limits", **ENDURING, pm__max_children=2)
    path = os.path.join(pool.state, "log/own.log")
    pool.configure(error_log=f'"{path}"', catch_workers_output=str(caught).lower())
    pool.reload()

    def children():
        return [pid for pid in (*living(pool), pool.recorder()) if pid]

    def led():
        target = path if caught else "/dev/null"
        with contextlib.suppress(OSError):
            return len(children()) == 3 and all(leads(pid) == {target} for pid in children())
        return False

    wait_until(led, "the children of the new generation alone", 60)
    os.rename(path, path + ".1")
    pool.signal("freshetd", signal.SIGUSR1)
    wait_until(lambda: os.path.exists(path) and led(), "the new file", 60)
