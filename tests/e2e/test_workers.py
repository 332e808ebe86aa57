"""Individual workers: they are replaced at their limits, run with the configured environment, and write to the log."""

import contextlib
import os
import resource
import signal

import pytest

from client import Load
from readers import known_items, read_items
from service import wait_until
from test_pool import LONG_REDIS_TIMEOUTS, MODES, running_workers, wait_for_progress


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit, reason", [({"pm__max_requests": 300}, "requests"), ({"pm__max_rss": '"1M"'}, "memory")])
def test_workers_at_their_limits_are_replaced_without_a_failed_get(instance, name, mode, limit, reason):
    pool = instance("--no-limits", **LONG_REDIS_TIMEOUTS, **MODES[mode], **limit)
    titles = known_items(pool, name)
    original = running_workers(pool)
    # A worker checks its memory every ten seconds, so few requests suffice meanwhile.
    with Load(pool.internal, read_items(titles), threads=6 if reason == "requests" else 1) as load:
        wait_until(lambda: load.errors or (pool.log().count(f"event=worker_recycled reason={reason}") > 2 and original - running_workers(pool)),
                   "other workers", 90)
        wait_for_progress(load)
    assert load.errors == []
    assert pool.status()["respawns"] == 0


def stat(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def core_limit(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        return next(line.split()[4] for line in file if line.startswith("Max core file size"))


def test_workers_run_with_the_configured_directory_priority_limits_and_environment(instance):
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    priority = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3)  # only root may use a higher priority than the test's
    core = 8192 if hard == resource.RLIM_INFINITY or hard >= 8192 else 0
    pool = instance("--no-limits", **LONG_REDIS_TIMEOUTS, pm__max_children=2, pm__max_requests=20, chdir='"/usr"', process__priority=priority, rlimit_core=core,
                    env='{ TZ = "Asia/Kathmandu", NOTHING = "$FRESHET_NO_SUCH_VARIABLE" }')
    for pid in (*running_workers(pool), pool.recorder()):
        assert os.readlink(f"/proc/{pid}/cwd") == "/usr"
        assert stat(pid)[16] == str(priority)
        assert core_limit(pid) == str(core)
    master = pool.pid("freshetd")
    assert stat(master)[16] == str(priority) and os.readlink(f"/proc/{master}/cwd") != "/usr"
    client = pool.internal()
    wait_until(lambda: client.get("/ping").status == 200 and "worker_recycled" in pool.log(), "a line from a worker")
    assert next(line for line in pool.log().splitlines() if "worker_recycled" in line).split()[0].endswith("+05:45")
    assert "FRESHET_NO_SUCH_VARIABLE" not in pool.log() and "env refers to a variable that is not set" in pool.log()


def output_targets(pid):
    """Targets of the process's stdout and stderr."""
    return {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (1, 2)}


@pytest.mark.parametrize("caught", [True, False])
def test_stdout_and_stderr_of_all_children_go_to_the_log_or_nowhere_even_after_a_reopen(instance, caught):
    pool = instance("--no-limits", **LONG_REDIS_TIMEOUTS, pm__max_children=2)
    path = os.path.join(pool.state, "log/own.log")
    pool.configure(error_log=f'"{path}"', catch_workers_output=str(caught).lower())
    pool.reload()

    def children():
        return [pid for pid in (*running_workers(pool), pool.recorder()) if pid]

    def is_redirected():
        target = path if caught else "/dev/null"
        with contextlib.suppress(OSError):
            return len(children()) == 3 and all(output_targets(pid) == {target} for pid in children())
        return False

    wait_until(is_redirected, "the children of the new generation alone", 60)
    os.rename(path, path + ".1")
    pool.signal("freshetd", signal.SIGUSR1)
    wait_until(lambda: os.path.exists(path) and is_redirected(), "the new file", 60)
