"""The soak, which runs load and random faults together, and R7, a million requests without faults."""

import contextlib
import os
import signal
import time

from fastcgi import Connection as FastCgi
from service import birth, comm, wait_until

from faults.clients import SlowClients, abort, broken_streams, corpus, descriptors_at_rest
from faults.invariants import MORE_DESCRIPTORS, Resources
from faults.lifecycle import BAD_SETTINGS, rejects_bad_file
from faults.load import GETS, PAGE_READS
from faults.redis_faults import is_crash_loss
from faults.scenario import Fault, fault, percentile
from faults.wire import request

CALM_SHARE = 0.4   # the last part of the time: no worker is killed or replaced, so that its memory can be measured
MAX_RSS_GROWTH = 0.05
PAGE_GETS = ("history", "timeline", "recommendations", "hot")  # must get a 200 under every fault


class FaultInjector:
    """Injects faults by name. Those of `lethal` end workers, those of `harmless` do not."""

    def __init__(self, run, service, readers):
        self.run, self.service, self.rng, self.counts, self.redis_kills = run, service, run.rng, {}, []
        self._streams = broken_streams(run.rng, corpus() or {})
        targets = [request("GET", "/api/hot?model=engagement&limit=100"), request("GET", f"/api/recommendations?userId={readers[0].id}"),
                   request("GET", f"/api/waterfall/discover?customerId={readers[0].id}&direction=first")]
        self._targets = targets
        self.lethal = [self.worker_killed, self.workers_killed, self.recorder_killed, self.reloaded, self.bad_file]
        self.harmless = [self.redis_stopped, self.redis_killed, self.scripts_flushed, self.aborts, self.slow_clients, self.broken_fastcgi]

    def inject_random(self, lethal):
        inject = self.rng.choice(self.harmless + (self.lethal if lethal else []))
        inject()
        name = inject.__name__.replace("_", " ")
        self.counts[name] = self.counts.get(name, 0) + 1

    def worker_killed(self):
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(self.rng.choice(sorted(self.service.workers())), signal.SIGKILL)

    def workers_killed(self):
        for pid in self.service.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def recorder_killed(self):
        if recorder := self.service.recorder():
            os.kill(recorder, signal.SIGKILL)

    def reloaded(self):
        self._when_available(self.service.reload)

    def bad_file(self):
        directives = self.rng.choice(BAD_SETTINGS)

        def check():
            assert rejects_bad_file(self.service, directives), "a bad file started a generation"
        self._when_available(check)

    def redis_stopped(self):
        redis = self.service.pid("redis")
        os.kill(redis, signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.05, 4))
        os.kill(redis, signal.SIGCONT)

    def redis_killed(self):
        pid, began = self.service.pid("redis"), birth(self.service.pid("redis"))
        os.kill(pid, signal.SIGKILL)
        self.redis_kills.append(time.monotonic())
        wait_until(lambda: birth(pid) != began, "Redis to exit")
        time.sleep(self.rng.uniform(0, 3))
        self.service.restart_redis()

    def scripts_flushed(self):
        self.service.redis("SCRIPT", "FLUSH")

    def aborts(self):
        for _ in range(200):
            with contextlib.suppress(OSError):
                abort((self.service.host, self.service.port), self.rng, self._targets)

    def slow_clients(self):
        with SlowClients((self.service.host, self.service.port), "/api/hot?limit=100", 25, 25, 50, ["127.0.0.1"], ramp_s=1.0):
            time.sleep(self.rng.uniform(1, 6))

    def broken_fastcgi(self):
        for _, data in zip(range(100), self._streams):
            with contextlib.suppress(OSError):
                direct = FastCgi(self.service.socket_path, timeout=5)
                with contextlib.closing(direct):
                    direct.send(data)

    def _when_available(self, action):
        """Waits for the service first, since the action reads its status."""
        wait_until(self._is_available, "the service", 30)
        action()

    def _is_available(self):
        try:
            return self.service.status()["total processes"] > 0
        except (OSError, ValueError):
            return False


def for_minutes(minutes):
    def soak(run):
        with run.instance() as service:
            readers = run.readers(service)
            injector = FaultInjector(run, service, readers)
            load = run.load(service, readers, allowed=(200, 429, 502, 503), think_s=0.002)
            began = time.monotonic()
            calm, end = began + 60 * minutes * (1 - CALM_SHARE), began + 60 * minutes
            with load:
                while time.monotonic() < calm:
                    time.sleep(run.rng.uniform(0.2, 3))
                    injector.inject_random(lethal=True)
                first, requests = _warm_resources(service, load, 30 * minutes * CALM_SHARE), load.requests
                while time.monotonic() < end:
                    time.sleep(run.rng.uniform(0.2, 3))
                    injector.inject_random(lethal=False)
                requests, last = load.requests - requests, _final_resources(service)
            _report(run, service, load, injector)
            run.report(f"memory {100 * last.rss_growth(first):+.1f} % over {requests:,} requests without killed workers", last.rss_growth(first) < MAX_RSS_GROWTH)
            run.report(f"descriptors ±{last.descriptor_change(first)}", last.descriptor_change(first) <= 16, safety=True)
            run.expect_none("workers lost while none was killed", len(set(first.rss_kib) - set(last.rss_kib)))
    return Fault("soak", f"{minutes:g} minutes of faults mixed at random: workers, recorder and Redis killed, Redis stopped, reloads, aborts, slow "
                 "clients, malformed FastCGI", "R1, R2, R5–R7", soak)


def _warm_resources(service, load, limit_s):
    """Resources after the workers of the last generation have served for a while."""
    wait_until(lambda: len(service.workers()) == service.status()["total processes"], "the old generations to end", 90)
    load.wait_for(load.requests // 20, max(60.0, limit_s))
    return Resources(service)


def _final_resources(service):
    """Resources once all workers are connected to Redis."""
    wait_until(lambda: service.status()["redis ready"] == service.status()["total processes"], "Redis", 30)
    return Resources(service)


def _report(run, service, load, injector):
    run.report(", ".join(f"{count} × {name}" for name, count in sorted(injector.counts.items())))
    pages = load.statuses(PAGE_GETS)
    run.expect_none("pages without a 200", sum(count for status, count in pages.items() if status != 200), [str(pages)])
    run.expect_none("unexpected replies", load.failed, load.failures)
    run.report(f"reads p50 {1000 * percentile(load.latencies_s(PAGE_READS), 0.5):.1f} ms, p99 {1000 * percentile(load.latencies_s(PAGE_READS), 0.99):.0f} ms")
    run.check_events(service, load, may_lose=lambda balance: is_crash_loss(balance, injector.redis_kills))
    run.check_replies(load)
    recorder = service.recorder()
    run.expect_none("recorders lost", int(recorder is None or comm(recorder) is None))


@fault("R7", "a million mixed requests, no fault", "memory grows < 5 %")
def mixed_requests(run):
    with run.instance(long_timeouts=True) as service:
        load, total = run.load(service, run.readers(service), connections=24), run.scale(15000, 1000000)
        before = Resources(service)
        with load:
            load.wait_for(total // 20, 600)
            first, requests = Resources(service), load.requests
            load.wait_for(total, 1800)
            last = Resources(service)
            requests = load.requests - requests
        more = descriptors_at_rest(service, before)
        run.report(f"memory {100 * last.rss_growth(first):+.1f} % ({max(last.rss_kib.values()) // 1024} MB) over {requests:,} requests", last.rss_growth(first) < MAX_RSS_GROWTH)
        run.report(f"{more} more descriptors when idle", more <= MORE_DESCRIPTORS, safety=True)
        run.expect_none("failed requests", load.failed, load.failures)
        run.report(f"{len(load.latencies_s()) / load.elapsed():,.0f} requests a second, GETs p99 {1000 * percentile(load.latencies_s(GETS), 0.99):.0f} ms")
        run.check_events(service, load)
        run.check_replies(load)
