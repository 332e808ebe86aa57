"""F4 to F6: the master is killed, stopped and reloaded under load."""

import os
import signal
import subprocess
import time

from service import ROOT, birth, wait_until

from faults.load import GETS
from faults.scenario import fault, percentile
from faults.supervisor import Supervisor
from faults.workers import interrupted_requests

BAD_SETTINGS = ({"pm__max_children": '"many"'}, {"no__such__name": "1"}, {"list__rebuild_interval": '"'}, {"redis__timeout": '"3s"'})


@fault("F4", "kill -9 the master, under a stand-in for systemd", "READY again ≤ 1 s")
def master_killed(run):
    with run.instance(long_timeouts=True) as service, Supervisor(service) as systemd:
        load = run.load(service, run.readers(service), only=(*GETS, "track", "view"))
        times, restarts_s = run.scale(3, 20), []
        with load:
            for number in range(times):
                load.wait_for(run.rng.randrange(200, 600))
                recorder = service.recorder()
                orphans = {pid: birth(pid) for pid in [*service.workers(), *([recorder] if recorder else [])]}
                began = time.monotonic()
                os.kill(service.pid("freshetd"), signal.SIGKILL)
                restarts_s.append(systemd.wait_until_ready(number + 2) - began)
                wait_until(lambda orphans=orphans: not any(birth(pid) == born for pid, born in orphans.items()), "the orphans to end", 10)
            load.wait_for(200)
        run.report(f"{times} kills")
        run.expect_at_most("READY again within", max(restarts_s), 1, "s")
        run.expect_at_most("slowest GET", max(load.latencies_s(GETS)), 1, "s")
        run.expect_none("failed GETs", load.failed, load.failures)
        run.check_events(service, load)
        run.check_replies(load)


def stop(service, signal_number):
    """Sends a signal to the master. Returns the seconds until it has exited."""
    service.record_processes()
    master, born = service.pid("freshetd"), birth(service.pid("freshetd"))
    began = time.monotonic()
    os.kill(master, signal_number)
    wait_until(lambda: birth(master) != born, "the master to exit", 60)
    return time.monotonic() - began


@fault("F5", "stops under load (QUIT, TERM), started again", "0 lost, stopped ≤ 10 s")
def stopped_under_load(run):
    with run.instance(long_timeouts=True) as service:
        # Without pauses, since nginx, which stops too, closes idle connections while a request may be on its way.
        load = run.load(service, run.readers(service), only=("track", "view", *GETS), allowed=(200, 502, 503, 504), think_s=0)
        durations_s, interrupted = {signal.SIGQUIT: [], signal.SIGTERM: []}, {signal.SIGQUIT: 0, signal.SIGTERM: 0}
        with load:
            for number in (signal.SIGQUIT, signal.SIGTERM) * run.scale(1, 3):
                load.wait_for(500)
                durations_s[number].append(stop(service, number))
                subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", service.state], check=True, capture_output=True, timeout=480)
                interrupted[number] += interrupted_requests(service) - sum(interrupted.values())
                service.start()
        for number, seconds in durations_s.items():
            run.expect_at_most(f"{signal.Signals(number).name[3:]}: stopped within", max(seconds), 10, "s")
        run.expect_none("requests interrupted by QUIT", interrupted[signal.SIGQUIT])
        run.report(f"{interrupted[signal.SIGTERM]} interrupted by TERM")
        run.expect_none("unexpected replies", load.failed, load.failures)
        run.check_events(service, load)
        run.check_replies(load)


@fault("F6", "50 reloads under load, some with bad files", "0 failed of 100,000, old generation kept on error")
def reloaded_under_load(run):
    with run.instance(long_timeouts=True) as service:
        load, total = run.load(service, run.readers(service)), run.scale(3000, 100000)
        reloads, bad_files, rejected = run.scale(8, 50), 0, 0
        with load:
            for number in range(reloads):
                load.wait_for(run.rng.randrange(total // reloads // 2, total // reloads * 3 // 2))
                if number % 10 == 4:
                    bad_files += 1
                    rejected += rejects_bad_file(service, BAD_SETTINGS[number // 10 % len(BAD_SETTINGS)])
                service.reload()
            load.wait_for(max(0, total - load.requests), 120)
        status = service.status()
        run.report(f"{status['reloads']} reloads")
        run.expect_none("bad files that had an effect", bad_files - rejected + abs(status["failed reloads"] - bad_files))
        run.expect_none("failed requests", load.failed + load.statuses().get(502, 0) + load.statuses().get(503, 0), load.failures)
        run.report(f"p99 {1000 * percentile(load.latencies_s(), 0.99):.0f} ms, slowest {1000 * max(load.latencies_s()):.0f} ms")
        run.check_events(service, load)
        run.check_replies(load)
        # Workers of old generations exit as nginx closes its connections to them.
        wait_until(lambda: len(service.workers()) == service.status()["total processes"], "the old generations to end", 60)


def rejects_bad_file(service, directives):
    """Reloads with bad directives. Returns whether the old generation continues."""
    before = service.status()
    service.configure(**directives)
    service.signal("freshetd", signal.SIGHUP)
    try:
        wait_until(lambda: service.status()["failed reloads"] > before["failed reloads"], "the reload to fail", 20)
        return service.status()["generation"] == before["generation"]
    finally:
        service.configure()
