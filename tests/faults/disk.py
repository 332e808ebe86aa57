"""F11 and F17: the SQLite database is locked, full, read-only or deleted while items are written over HTTP, and the disk is
full under Redis' append-only file.
"""

import contextlib
import os
import sqlite3
import subprocess
import time

from client import Load as WriteLoad
from recorded import RecorderData, Writers
from service import LONG_TIMEOUTS, ROOT, Instance, birth, wait_until

from faults.invariants import broken_invariants, integrity_error
from faults.redis_faults import OUTAGE_STATUSES, expect_reads_served
from faults.scenario import NO_LIMITS, NO_PAGE_VIEW_QUOTA, fault

MAX_STREAM_ENTRIES = 1000  # writes are refused above it


# Each yields the reason that a paused recorder reports, or None if several are possible.


@contextlib.contextmanager
def locked(_, recorded):
    other = recorded.connect()
    other.execute("BEGIN IMMEDIATE")
    try:
        yield "database_locked"
    finally:
        other.close()


@contextlib.contextmanager
def filled(folder):
    """Fills the file system of a folder."""
    ballast = os.path.join(folder, "ballast")
    with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096) == 4096:
            pass
    try:
        yield
    finally:
        os.remove(ballast)


@contextlib.contextmanager
def full(_, recorded):
    with filled(os.path.dirname(recorded.database)):
        yield None


@contextlib.contextmanager
def read_only(_, recorded):
    recorded.make_read_only()
    try:
        yield "database_read_only"
    finally:
        recorded.make_writable()


@contextlib.contextmanager
def small_disk(service, name):
    """Mounts a 24 MB file system at this folder of the state. Yields False if mounting is not permitted."""
    folder = os.path.join(service.state, name)
    os.mkdir(folder)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=0777", "tmpfs", folder], capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", service.state], check=False, capture_output=True, timeout=480)
            # A child of Redis that rewrites the append-only file may take a moment to end.
            wait_until(lambda: subprocess.run(["umount", folder], check=False, capture_output=True).returncode == 0, "the disk to be unmounted", 60)


def recovery_s(run, service, recorded, name, state, load, writers):
    """Keeps the database in `state` until writes are refused. Returns the seconds until the recorder and writes have
    recovered.
    """
    with state(service, recorded) as reason:
        recorder = wait_until(service.recorder, "a recorder")
        recorder_birth = birth(recorder)
        recorded.wait_for_state("waiting", reason)
        refused = writers.refused
        wait_until(lambda: writers.refused > refused + 20 or load.errors, f"refused writes while {name}", 30)
        if service.internal().get("/health/ready").status != 200:
            run.report(f"not ready while {name}", False, safety=True)
    began, done = time.monotonic(), len(load.results)
    recorded.wait_for_state("running")
    wait_until(lambda: len(load.results) > done + 100 or load.errors, "writes")
    if birth(recorder) != recorder_birth:
        log_lines = [line for line in service.log().splitlines() if "freshetd-record" in line]
        run.report(f"recorder restarted after {name}: {log_lines[-1:]}", False, safety=True)
    return time.monotonic() - began


@fault("F11", "SQLite locked, full, read-only, deleted, while items are written", "integrity_check ok, 0 lost")
def disk_full(run):
    service = Instance("--no-limits", **NO_LIMITS, redis__timeout='"1s"', gateway__request_budget='"3s"', stream__max_len=str(MAX_STREAM_ENTRIES),
                       recorder__batch="50")
    with small_disk(service, "record") as small:
        try:
            service.start()
            _run_states(run, service, small)
            broken = broken_invariants(service)
            run.report("invariants hold" if not broken else f"invariants broken: {broken[:3]}", not broken, safety=True)
        finally:
            if not small:
                service.stop()
    if small:
        service.stop()


def _run_states(run, service, small):
    recorded, numbers = RecorderData(service), iter(range(10**9))
    writers = Writers(lambda prefix: f"{prefix}-{next(numbers)}", refusals=(503,))
    states = {"locked": locked, "full": full, "read-only": read_only}
    if not small:
        del states["full"]
        run.report("FULL SKIPPED: mounting a small file system is not permitted", False)
    if os.stat(os.path.join(service.state, "record")).st_uid == 0 and not small:
        del states["read-only"]
        run.report("READ-ONLY SKIPPED: the service runs as root", False)
    slowest_s = 0.0
    with WriteLoad(service.internal, writers.write) as load:
        wait_until(lambda: len(load.results) > 200 or load.errors, "writes")
        for _ in range(run.scale(1, 2)):
            for name, state in states.items():
                slowest_s = max(slowest_s, recovery_s(run, service, recorded, name, state, load, writers))
                assert not load.errors, load.errors[:3]
    run.report(f"{', '.join(states)}; {len(writers.expected):,} items written, {writers.refused:,} writes refused")
    run.report(f"resumed, with 100 more writes, within {slowest_s:.1f} s")
    recorded.wait_for(writers.expected, 60)
    run.expect_none("items lost", len(set(writers.expected.items()) ^ set(recorded.titles().items())))
    error = integrity_error(recorded.database)
    run.report(f"integrity {error or 'ok'}", error is None, safety=True)
    _delete_database(run, service, recorded, writers.expected)


def _delete_database(run, service, recorded, kept):
    """The same recorder process creates a new database and records new items; Redis still has all earlier ones."""
    recorder = wait_until(service.recorder, "a recorder")
    recorder_birth = birth(recorder)
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(recorded.database + suffix)
    after = {f"after-{number}": service.put(f"after-{number}")["title"] for number in range(50)}

    def are_recorded():
        try:
            return set(after.items()) <= set(recorded.titles().items())
        except sqlite3.Error:
            return False
    wait_until(are_recorded, "a new database", 30)
    error = integrity_error(recorded.database)
    run.report(f"deleted: created again, integrity {error or 'ok'}", error is None and birth(recorder) == recorder_birth, safety=True)
    sample = run.rng.sample(sorted(kept), 20)
    run.expect_none("items missing in Redis", sum(service.internal().get(f"/api/items/{item}").status != 200 for item in sample))


@fault("F17", "the disk is full under Redis' append-only file", "reads 100 % 200, writes queued; 0 lost, 0 counted twice")
def append_only_file_full(run):
    service = Instance("--no-limits", **NO_LIMITS, **NO_PAGE_VIEW_QUOTA, **LONG_TIMEOUTS)
    with small_disk(service, "redis") as small:
        try:
            if not small:
                run.report("SKIPPED: mounting a small file system is not permitted", False)
                return
            service.start()
            _fill_redis_disk(run, service)
            broken = broken_invariants(service)
            run.report("invariants hold" if not broken else f"invariants broken: {broken[:3]}", not broken, safety=True)
        finally:
            if not small:
                service.stop()
    service.stop()


def misconf_count(service):
    """The replies with MISCONF that the workers have published in the status so far."""
    return int(service.status()["redis failures"]["misconf"])


def _fill_redis_disk(run, service):
    load = run.load(service, run.readers(service, 12), connections=6, think_s=0.01, allowed=OUTAGE_STATUSES)
    recovery_s = []
    with load:
        load.wait_for(200)
        began = time.monotonic()
        for _ in range(run.scale(1, 5)):
            before = misconf_count(service)
            with filled(os.path.join(service.state, "redis")):
                wait_until(lambda: service.persistence("aof_last_write_status") == "err", "Redis to fail to write", 60)
                wait_until(lambda: service.status()["spooled bytes"] > 0, "spooled reports", 30)
                load.wait_for(run.scale(200, 3000))
                wait_until(lambda before=before: misconf_count(service) > before, "the workers to count MISCONF", 30)
                if service.internal().put("/api/items/refused", {"title": "t", "published_at": 1}).status != 503:
                    run.report("an item was acknowledged that Redis did not write", False, safety=True)
            freed = time.monotonic()
            wait_until(lambda: service.persistence("aof_last_write_status") == "ok" and service.status()["spooled bytes"] == 0, "the spool to be delivered", 60)
            recovery_s.append(time.monotonic() - freed)
            load.wait_for(100)
        until = time.monotonic()
    queued = load.statuses(since=began).get(202, 0)
    run.report(f"{queued:,} writes queued, delivered within {max(recovery_s):.1f} s", queued > 0, safety=True)
    expect_reads_served(run, load, began, until)
    run.expect_none("unexpected replies", load.failed, load.failures)
    run.check_events(service, load)
    run.check_replies(load)
