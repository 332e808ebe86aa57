"""A long time: load and random faults together, and a million requests with none."""

import contextlib
import os
import signal
import time

from fastcgi import Connection as FastCgi
from service import birth, comm, wait_until

from faults.clients import SlowClients, abort, broken_streams, corpus, descriptors_at_rest
from faults.invariants import INDEX_FILES, Resources
from faults.lifecycle import BROKEN, refuse
from faults.load import GETS, LISTS
from faults.redis_away import lost_within_a_second
from faults.scenario import Fault, fault, percentile
from faults.wire import request

CALM_SHARE = 0.4   # of the time, at the end: no worker is killed or replaced, so that its memory can be watched
RSS_SHARE = 0.05
PAGES = ("history", "timeline", "recommendations", "hot")  # GETs of a page: answered whatever happens


class Trouble:
    """Every kind of harm, by name. lethal: ends workers."""

    def __init__(self, run, service, readers):
        self.run, self.service, self.dice, self.done, self.redis_kills = run, service, run.dice, {}, []
        self._streams = broken_streams(run.dice, corpus() or {})
        targets = [request("GET", "/api/hot?model=engagement&limit=100"), request("GET", f"/api/recommendations?userId={readers[0].id}"),
                   request("GET", f"/api/waterfall/discover?customerId={readers[0].id}&direction=first")]
        self._targets = targets
        self.lethal = [self.worker_killed, self.workers_killed, self.recorder_killed, self.reloaded, self.bad_file]
        self.harmless = [self.redis_stopped, self.redis_killed, self.scripts_flushed, self.aborts, self.slow_clients, self.broken_fastcgi]

    def any(self, lethal):
        act = self.dice.choice(self.harmless + (self.lethal if lethal else []))
        act()
        name = act.__name__.replace("_", " ")
        self.done[name] = self.done.get(name, 0) + 1

    def worker_killed(self):
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(self.dice.choice(sorted(self.service.workers())), signal.SIGKILL)

    def workers_killed(self):
        for pid in self.service.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def recorder_killed(self):
        if recorder := self.service.recorder():
            os.kill(recorder, signal.SIGKILL)

    def reloaded(self):
        self._when_it_answers(self.service.reload)

    def bad_file(self):
        bad = self.dice.choice(BROKEN)

        def check():
            assert refuse(self.service, bad), "a bad file began a generation"
        self._when_it_answers(check)

    def redis_stopped(self):
        redis = self.service.pid("redis")
        os.kill(redis, signal.SIGSTOP)
        time.sleep(self.dice.uniform(0.05, 4))
        os.kill(redis, signal.SIGCONT)

    def redis_killed(self):
        pid, began = self.service.pid("redis"), birth(self.service.pid("redis"))
        os.kill(pid, signal.SIGKILL)
        self.redis_kills.append(time.monotonic())
        wait_until(lambda: birth(pid) != began, "Redis' end")
        time.sleep(self.dice.uniform(0, 3))
        self.service.restart_redis()

    def scripts_flushed(self):
        self.service.redis("SCRIPT", "FLUSH")

    def aborts(self):
        for _ in range(200):
            with contextlib.suppress(OSError):
                abort((self.service.host, self.service.port), self.dice, self._targets)

    def slow_clients(self):
        with SlowClients((self.service.host, self.service.port), "/api/hot?limit=100", 25, 25, 50, ["127.0.0.1"], come_s=1.0):
            time.sleep(self.dice.uniform(1, 6))

    def broken_fastcgi(self):
        for _, data in zip(range(100), self._streams):
            with contextlib.suppress(OSError):
                direct = FastCgi(self.service.socket_path, timeout=5)
                with contextlib.closing(direct):
                    direct.send(data)

    def _when_it_answers(self, act):
        """Reloads ask the status page, which dies with its worker."""
        wait_until(lambda: self._alive(), "the service", 30)
        act()

    def _alive(self):
        try:
            return self.service.status()["total processes"] > 0
        except (OSError, ValueError):
            return False


def for_minutes(minutes):
    def soak(run):
        with run.instance() as service:
            readers = run.readers(service)
            trouble = Trouble(run, service, readers)
            load = run.load(service, readers, allowed=(200, 429, 502, 503), think_s=0.002)
            began = time.monotonic()
            calm, end = began + 60 * minutes * (1 - CALM_SHARE), began + 60 * minutes
            with load:
                while time.monotonic() < calm:
                    time.sleep(run.dice.uniform(0.2, 3))
                    trouble.any(lethal=True)
                first, requests = _warm(service, load, 30 * minutes * CALM_SHARE), load.requests
                while time.monotonic() < end:
                    time.sleep(run.dice.uniform(0.2, 3))
                    trouble.any(lethal=False)
                requests, last = load.requests - requests, _quiet(service)
            _figures(run, service, load, trouble)
            run.figure(f"in {requests:,} requests without killed workers RSS {100 * last.growth(first):+.1f} %", last.growth(first) < RSS_SHARE)
            run.figure(f"descriptors ±{last.most_more_descriptors(first)}", last.most_more_descriptors(first) <= 16, safety=True)
            run.none("workers lost while none was killed", len(set(first.rss_kib) - set(last.rss_kib)))
    return Fault("soak", f"{minutes:g} minutes of load and random faults: workers, recorder and Redis killed, Redis stopped, reloads, aborts, slow "
                 "clients, broken FastCGI", "R1, R2, R5, R6, R7 hold", soak)


def _warm(service, load, limit_s):
    """Resources once the workers of the last generation have served for a while."""
    wait_until(lambda: len(service.workers()) == service.status()["total processes"], "the old generations' end", 90)
    load.wait_for(load.requests // 20, max(60.0, limit_s))
    return Resources(service)


def _quiet(service):
    wait_until(lambda: service.status()["redis ready"] == service.status()["total processes"], "Redis", 30)
    return Resources(service)


def _figures(run, service, load, trouble):
    run.figure(", ".join(f"{count} × {name}" for name, count in sorted(trouble.done.items())))
    pages = load.statuses(PAGES)
    run.none("GETs of pages without a 200", sum(count for status, count in pages.items() if status != 200), [str(pages)])
    run.none("unexpected replies", load.failed, load.failures)
    run.figure(f"reads p50 {1000 * percentile(load.seconds(LISTS), 0.5):.1f} ms, p99 {1000 * percentile(load.seconds(LISTS), 0.99):.0f} ms")
    run.balance(service, load, may_lose=lambda balance: lost_within_a_second(balance, trouble.redis_kills))
    run.judge(load)
    recorder = service.recorder()
    run.none("recorders lost", int(recorder is None or comm(recorder) is None))


@fault("R7", "mixed requests and no fault", "RSS grows < 5 % over a million")
def mixed_requests(run):
    with run.instance(patient=True) as service:
        load, wanted = run.load(service, run.readers(service), connections=24), run.scale(30000, 1000000)
        before = Resources(service)
        with load:
            load.wait_for(wanted // 20, 600)
            first, requests = Resources(service), load.requests
            load.wait_for(wanted, 1800)
            last = Resources(service)
            requests = load.requests - requests
        more = descriptors_at_rest(service, before)
        run.figure(f"over {requests:,} RSS {100 * last.growth(first):+.1f} % ({max(last.rss_kib.values()) // 1024} MB)", last.growth(first) < RSS_SHARE)
        run.figure(f"{more} descriptors more at rest", more <= INDEX_FILES, safety=True)
        run.none("failed requests", load.failed, load.failures)
        run.figure(f"{len(load.seconds()) / load.elapsed():,.0f} requests a second, GETs p99 {1000 * percentile(load.seconds(GETS), 0.99):.0f} ms")
        run.balance(service, load)
        run.judge(load)
