"""F11: SQLite is full, read-only, locked, deleted, while items are written over HTTP."""

import contextlib
import os
import sqlite3
import subprocess
import time

from client import Load as Writing
from recorded import Recorded, Writers
from service import ROOT, Instance, birth, wait_until

from faults.invariants import broken_invariants, unsound
from faults.scenario import NO_LIMITS, fault

STREAM = 1000  # entries of the stream before writes are refused


@contextlib.contextmanager
def locked(_, recorded):
    other = recorded.connect()
    other.execute("BEGIN IMMEDIATE")
    try:
        yield "database_locked"
    finally:
        other.close()


@contextlib.contextmanager
def full(service, recorded):
    ballast = os.path.join(os.path.dirname(recorded.database), "ballast")
    with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096) == 4096:
            pass
    try:
        yield None
    finally:
        os.remove(ballast)


@contextlib.contextmanager
def read_only(_, recorded):
    recorded.forbid_writing()
    try:
        yield "database_read_only"
    finally:
        recorded.allow_writing()


@contextlib.contextmanager
def small_disk(service):
    """A file system of 24 MB for what the recorder keeps; says whether there is one."""
    folder = os.path.join(service.state, "record")
    os.mkdir(folder)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=0777", "tmpfs", folder], capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", service.state], check=False, capture_output=True, timeout=480)
            subprocess.run(["umount", folder], check=True)


def suffer(run, service, recorded, name, state, load, writers):
    """One of them under a load of writes until these are refused, then the end of it."""
    with state(service, recorded) as reason:
        recorder = wait_until(service.recorder, "a recorder")
        began_as = birth(recorder)
        recorded.wait_until_it("waiting", reason)
        refused = writers.refused
        wait_until(lambda: writers.refused > refused + 20 or load.errors, f"refused writes while {name}", 30)
        if service.internal().get("/health/ready").status != 200:
            run.figure(f"not ready while {name}", False, safety=True)
    began, done = time.monotonic(), len(load.results)
    recorded.wait_until_it("running")
    wait_until(lambda: len(load.results) > done + 100 or load.errors, "writes")
    if birth(recorder) != began_as:
        said = [line for line in service.log().splitlines() if "freshetd-record" in line]
        run.figure(f"restarted after {name}: {said[-1:]}", False, safety=True)
    return time.monotonic() - began


@fault("F11", "SQLite locked, full (a small file system), read-only, deleted, under writes by HTTP",
       "integrity_check ok, nothing lost")
def disk_full(run):
    service = Instance("--no-limits", **NO_LIMITS, redis__timeout='"1s"', gateway__request_budget='"3s"', stream__max_len=str(STREAM),
                       recorder__batch="50")
    with small_disk(service) as small:
        try:
            service.start()
            _all_of_them(run, service, small)
            broken = broken_invariants(service)
            run.figure("invariants hold" if not broken else f"invariants broken: {broken[:3]}", not broken, safety=True)
        finally:
            if not small:
                service.stop()
    if small:
        service.stop()


def _all_of_them(run, service, small):
    recorded, numbers = Recorded(service), iter(range(10**9))
    writers = Writers(lambda word: f"{word}-{next(numbers)}", refusals=(503,))
    states = {"locked": locked, "full": full, "read-only": read_only}
    if not small:
        del states["full"]
        run.figure("FULL SKIPPED: needs the right to mount a small file system", False)
    if os.stat(os.path.join(service.state, "record")).st_uid == 0 and not small:
        del states["read-only"]
        run.figure("READ-ONLY SKIPPED: the service runs as root", False)
    back = 0.0
    with Writing(service.internal, writers.write) as load:
        wait_until(lambda: len(load.results) > 200 or load.errors, "writes")
        for _ in range(run.scale(1, 2)):
            for name, state in states.items():
                back = max(back, suffer(run, service, recorded, name, state, load, writers))
                assert not load.errors, load.errors[:3]
    run.figure(f"{', '.join(states)}; {len(writers.kept):,} items written, {writers.refused:,} writes refused")
    run.figure(f"running and 100 writes after at most {back:.1f} s")
    recorded.wait_for(writers.kept, 60)
    run.none("items lost", len(set(writers.kept.items()) ^ set(recorded.titles().items())))
    said = unsound(recorded.database)
    run.figure(f"integrity {said or 'ok'}", said is None, safety=True)
    _deleted(run, service, recorded, writers.kept)


def _deleted(run, service, recorded, kept):
    """What was in the file is gone with it; what comes is recorded by the same process, and Redis still has everything."""
    recorder = wait_until(service.recorder, "a recorder")
    began_as = birth(recorder)
    for end in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(recorded.database + end)
    after = {f"after-{number}": service.put(f"after-{number}")["title"] for number in range(50)}

    def there():
        try:
            return set(after.items()) <= set(recorded.titles().items())
        except sqlite3.Error:
            return False
    wait_until(there, "a new database", 30)
    said = unsound(recorded.database)
    run.figure(f"deleted: made anew, integrity {said or 'ok'}", said is None and birth(recorder) == began_as, safety=True)
    sample = run.dice.sample(sorted(kept), 20)
    run.none("items gone from Redis", sum(service.internal().get(f"/api/items/{item}").status != 200 for item in sample))
