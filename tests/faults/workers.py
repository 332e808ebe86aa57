"""F1 to F3: workers are killed or crash."""

import contextlib
import json
import os
import re
import signal
import time

from service import birth, wait_until

from faults.load import GETS
from faults.scenario import fault, percentile

ATTEMPT_SEPARATOR = re.compile(r", | : ")  # between attempts in nginx's $upstream_* variables
RESPAWN_MS = 100
MAX_FORKS_PER_MINUTE = 20


class Pool:
    """The pool of workers, according to the status page."""

    def __init__(self, service):
        self.service, self._client = service, service.internal()
        self.refused = []  # failed requests for the status page, which count as client errors
        self.size = len(self.ready())

    def ready(self):
        """Pids of the workers that accept requests."""
        reply = self._client.get("/status?json&full")
        if reply.status != 200:
            self.refused.append(repr(reply))
            return set()
        return {row["pid"] for row in reply.json()["processes"] if row["state"] in ("Idle", "Running")}

    def kill_one(self, rng):
        """Kills a random worker. Returns the seconds until its replacement is ready."""
        before = wait_until(lambda: ready if len(ready := self.ready()) == self.size else None, "a complete pool")
        victim = rng.choice(sorted(before))
        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: self.ready() - before, "a new worker")
        return time.monotonic() - began


def interrupted_requests(service):
    """Number of attempts in nginx's logs that connected to a worker and got no reply. The logs are complete once nginx
    has exited; before, the last second is missing.
    """
    count = 0
    for name in ("freshet-public", "freshet-internal"):
        for line in service.log(name).splitlines():
            with contextlib.suppress(ValueError, KeyError):  # the last line may be incomplete
                upstream = json.loads(line)["upstream"]
                attempts = zip(ATTEMPT_SEPARATOR.split(upstream["status"]), ATTEMPT_SEPARATOR.split(upstream["connect"]), strict=True)
                count += sum(status == "502" and connect != "-" for status, connect in attempts)
    return count


def kill_under_load(run, service, load, kills):
    """Returns the sorted respawn times in seconds, and the failed requests for the status page."""
    pool, respawn_s = Pool(service), []
    load.wait_for(100)
    for _ in range(kills):
        time.sleep(run.rng.uniform(0, 0.01))
        respawn_s.append(pool.kill_one(run.rng))
    load.wait_for(100)
    return sorted(respawn_s), pool.refused


def report_respawns(run, respawn_s):
    run.report(f"{len(respawn_s)} kills")
    run.expect_at_most("respawn p50", 1000 * percentile(respawn_s, 0.5), RESPAWN_MS)
    run.report(f"p99 {1000 * percentile(respawn_s, 0.99):.0f} ms")


@fault("F1", "workers killed during GETs", "0 client errors, respawn ≤ 100 ms")
def killed_in_gets(run):
    with run.instance(long_timeouts=True) as service:
        load = run.load(service, run.readers(service), only=GETS)
        with load:
            respawn_s, refused = kill_under_load(run, service, load, run.scale(40, 1000))
        report_respawns(run, respawn_s)
        run.expect_none("client errors", load.failed + len(refused), load.failures + refused)
        run.report(f"{interrupted_requests(service):,} retried by nginx")
        run.check_replies(load)


@fault("F2", "workers killed during POSTs, requests repeated with the same eventId", "0 counted twice, 0 lost")
def killed_in_posts(run):
    with run.instance(long_timeouts=True) as service:
        load = run.load(service, run.readers(service), only=("track", "view", "feed", "stats"), allowed=(200, 502))
        with load:
            respawn_s, refused = kill_under_load(run, service, load, run.scale(25, 500))
        report_respawns(run, respawn_s)
        run.report(f"{load.statuses(('track', 'view')).get(502, 0):,} POSTs interrupted")
        balance = run.check_events(service, load)
        run.report(f"{balance.repeated:,} acknowledged events sent again")
        run.expect_none("unexpected replies", load.failed + len(refused), load.failures + refused)
        run.check_replies(load)


@fault("F3", "all workers crash before READY", "≤ 20 forks a minute, master alive, not ready")
def crashing_before_ready(run):
    with run.instance(long_timeouts=True) as service:
        shards = f"bf:global:{time.strftime('%Y%m%d', time.gmtime())}:shards"
        wait_until(lambda: service.redis("EXISTS", shards), "the seen filter")
        original = service.redis("GET", shards)
        service.redis("DEL", shards)
        service.redis("HSET", shards, "wrong", "type")  # workers exit before READY if they cannot use the seen filter
        master, began = service.pid("freshetd"), birth(service.pid("freshetd"))
        victims = service.workers()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in victims), "the master to reap them")
        wait_until(lambda: not _is_ready(service), "the service not to be ready")
        since, seconds, ready_count = time.monotonic(), run.scale(15, 60), 0
        while time.monotonic() < since + seconds:
            ready_count += _is_ready(service)
            time.sleep(0.05)
        forks = len(re.findall(r"event=worker_exited .* ready=no", service.log()))
        run.report(f"{forks} forks in {seconds} s")
        run.expect_none("forks over 20 a minute", max(0, forks - MAX_FORKS_PER_MINUTE))
        assert forks >= 4, "too few workers crashed before READY"
        run.expect_none("times ready", ready_count)
        run.expect_none("masters lost", int(birth(master) != began))
        service.redis("DEL", shards)
        if original is not None:
            service.redis("SET", shards, original, "EX", 9 * 86400)
        repaired = time.monotonic()
        wait_until(lambda: _is_ready(service), "the service to be ready", 30)
        run.report(f"ready {time.monotonic() - repaired:.1f} s after the repair")
        service.record_processes()


def _is_ready(service):
    try:
        return service.internal(timeout=1).get("/health/ready").status == 200
    except OSError:
        return False
