"""F1 to F3: workers that die."""

import contextlib
import json
import os
import re
import signal
import time

from service import birth, wait_until

from faults.load import GETS
from faults.scenario import fault, percentile

TRIES = re.compile(r", | : ")  # between the tries of a request
RESPAWN_MS = 100
FORKS_A_MINUTE = 20


class Pool:
    """The workers, as the master's children and as the status page says."""

    def __init__(self, service):
        self.service, self._client = service, service.internal()
        self.refused = []  # replies to our own questions, which are GETs as any other
        self.size = len(self.ready())

    def ready(self):
        """pids of those that take requests."""
        reply = self._client.get("/status?json&full")
        if reply.status != 200:
            self.refused.append(repr(reply))
            return set()
        return {row["pid"] for row in reply.json()["processes"] if row["state"] in ("Idle", "Running")}

    def kill_one(self, dice):
        """Kills one and returns the seconds until another is ready in its place."""
        before = wait_until(lambda: ready if len(ready := self.ready()) == self.size else None, "a whole pool")
        victim = dice.choice(sorted(before))
        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: self.ready() - before, "a new worker")
        return time.monotonic() - began


def cut_off(service):
    """How often nginx saw a worker go with a request in it: a try that connected and has no reply. Of what nginx has written down, which is all
    once it ended, and else what is a second old."""
    tries = 0
    for name in ("freshet-public", "freshet-internal"):
        for line in service.log(name).splitlines():
            with contextlib.suppress(ValueError, KeyError):  # nginx may be writing the last
                upstream = json.loads(line)["upstream"]
                pairs = zip(TRIES.split(upstream["status"]), TRIES.split(upstream["connect"]), strict=True)
                tries += sum(status == "502" and connect != "-" for status, connect in pairs)
    return tries


def kill_under_load(run, service, load, kills):
    """Returns the sorted respawn times, and what the status page refused."""
    pool, respawned = Pool(service), []
    load.wait_for(100)
    for _ in range(kills):
        time.sleep(run.dice.uniform(0, 0.01))
        respawned.append(pool.kill_one(run.dice))
    load.wait_for(100)
    return sorted(respawned), pool.refused


def respawns(run, respawned):
    run.figure(f"{len(respawned)} kills")
    run.at_most("respawn p50", 1000 * percentile(respawned, 0.5), RESPAWN_MS)
    run.figure(f"p99 {1000 * percentile(respawned, 0.99):.0f} ms")


@fault("F1", "kill -9 a worker in mid-GET", "0 client errors, respawn ≤ 100 ms")
def killed_in_gets(run):
    with run.instance(patient=True) as service:
        load = run.load(service, run.readers(service), only=GETS)
        with load:
            respawned, refused = kill_under_load(run, service, load, run.scale(120, 1000))
        respawns(run, respawned)
        run.none("client errors", load.failed + len(refused), load.failures + refused)
        run.figure(f"{cut_off(service):,} retried unseen")
        run.judge(load)


@fault("F2", "kill -9 a worker in mid-POST; the client retries with the same eventId", "0 double, 0 acknowledged lost")
def killed_in_posts(run):
    with run.instance(patient=True) as service:
        load = run.load(service, run.readers(service), only=("track", "view", "feed", "stats"), allowed=(200, 502))
        with load:
            respawned, refused = kill_under_load(run, service, load, run.scale(60, 500))
        respawns(run, respawned)
        run.figure(f"{load.statuses(('track', 'view')).get(502, 0):,} posts cut off")
        balance = run.balance(service, load)
        run.figure(f"{balance.repeated:,} sent again though acknowledged")
        run.none("unexpected replies", load.failed + len(refused), load.failures + refused)
        run.judge(load)


@fault("F3", "every worker crashes before READY", "≤ 20 forks a minute, master alive, not ready")
def crashing_before_ready(run):
    with run.instance(patient=True) as service:
        shards = f"bf:global:{time.strftime('%Y%m%d', time.gmtime())}:shards"
        wait_until(lambda: service.redis("EXISTS", shards), "the seen-filter")
        kept = service.redis("GET", shards)
        service.redis("DEL", shards)
        service.redis("HSET", shards, "in", "the way")  # a worker that cannot use the seen-filter ends before it is ready
        master, began = service.pid("freshetd"), birth(service.pid("freshetd"))
        victims = service.workers()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in victims), "the master to reap them")
        wait_until(lambda: not _ready(service), "it to say so")
        since, seconds, answered = time.monotonic(), run.scale(15, 60), 0
        while time.monotonic() < since + seconds:
            answered += _ready(service)
            time.sleep(0.05)
        forks = len(re.findall(r"event=worker_exited .* ready=no", service.log()))
        run.figure(f"{forks} forks in {seconds} s")
        run.none("forks over 20 a minute", max(0, forks - FORKS_A_MINUTE))
        assert forks >= 4, "no worker crashed before it was ready"
        run.none("times ready", answered)
        run.none("masters lost", int(birth(master) != began))
        service.redis("DEL", shards)
        if kept is not None:
            service.redis("SET", shards, kept, "EX", 9 * 86400)
        back = time.monotonic()
        wait_until(lambda: _ready(service), "the pool", 30)
        run.figure(f"serving {time.monotonic() - back:.1f} s after the cause was gone")
        service.note_processes()


def _ready(service):
    try:
        return service.internal(timeout=1).get("/health/ready").status == 200
    except OSError:
        return False
