"""F4 to F6: the master dies, the service is stopped, the service is reloaded, all under load."""

import os
import signal
import subprocess
import time

from service import ROOT, birth, wait_until

from faults.load import GETS
from faults.scenario import fault, percentile
from faults.supervisor import Supervisor
from faults.workers import cut_off

BROKEN = ({"pm__max_children": '"many"'}, {"no__such__name": "1"}, {"list__rebuild_interval": '"'}, {"redis__timeout": '"3s"'})


@fault("F4", "kill -9 the master; systemd's part is played by tests/faults/supervisor.py", "back ≤ 1 s")
def master_killed(run):
    with run.instance(patient=True) as service, Supervisor(service) as systemd:
        load = run.load(service, run.readers(service), only=(*GETS, "track", "view"))
        times, back = run.scale(3, 20), []
        with load:
            for number in range(times):
                load.wait_for(run.dice.randrange(200, 600))
                recorder = service.recorder()
                orphans = {pid: birth(pid) for pid in [*service.workers(), *([recorder] if recorder else [])]}
                began = time.monotonic()
                os.kill(service.pid("freshetd"), signal.SIGKILL)
                back.append(systemd.wait_until_ready(number + 2) - began)
                wait_until(lambda orphans=orphans: not any(birth(pid) == born for pid, born in orphans.items()), "the orphans' end", 10)
            load.wait_for(200)
        run.figure(f"{times} kills")
        run.at_most("READY again after at most", max(back), 1, "s")
        gaps = load.seconds(GETS)
        run.at_most("the longest GET", max(gaps), 1, "s")
        run.none("failed GETs", load.failed, load.failures)
        run.balance(service, load)
        run.judge(load)


def stop(service, number):
    """Returns the seconds until the master is gone."""
    service.note_processes()
    master, born = service.pid("freshetd"), birth(service.pid("freshetd"))
    began = time.monotonic()
    os.kill(master, number)
    wait_until(lambda: birth(master) != born, "the master's end", 60)
    return time.monotonic() - began


@fault("F5", "stop under load (QUIT, TERM), start again", "0 lost, exit ≤ 10 s")
def stopped_under_load(run):
    with run.instance(patient=True) as service:
        load = run.load(service, run.readers(service), only=("track", "view", *GETS), allowed=(200, 502, 503, 504))
        took, torn = {signal.SIGQUIT: [], signal.SIGTERM: []}, {signal.SIGQUIT: 0, signal.SIGTERM: 0}
        with load:
            for number in (signal.SIGQUIT, signal.SIGTERM) * run.scale(1, 3):
                load.wait_for(500)
                took[number].append(stop(service, number))
                subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", service.state], check=True, capture_output=True, timeout=480)
                torn[number] += cut_off(service) - sum(torn.values())
                service.start()
        for number, seconds in took.items():
            run.at_most(f"{signal.Signals(number).name[3:]}: exit after at most", max(seconds), 10, "s")
        run.none("requests cut off by QUIT", torn[signal.SIGQUIT])
        run.figure(f"{torn[signal.SIGTERM]} by TERM")
        run.none("unexpected replies", load.failed, load.failures)
        run.balance(service, load)
        run.judge(load)


@fault("F6", "reload × 50 under load at random intervals; bad files among them", "0 failed of 100,000, the old kept on error")
def reloaded_under_load(run):
    with run.instance(patient=True) as service:
        load, wanted = run.load(service, run.readers(service)), run.scale(6000, 100000)
        reloads, refused, kept = run.scale(8, 50), 0, 0
        with load:
            for number in range(reloads):
                load.wait_for(run.dice.randrange(wanted // reloads // 2, wanted // reloads * 3 // 2))
                if number % 10 == 4:
                    refused += 1
                    kept += refuse(service, BROKEN[number // 10 % len(BROKEN)])
                service.reload()
            load.wait_for(max(0, wanted - load.requests), 120)
        status = service.status()
        run.figure(f"{status['reloads']} reloads")
        run.none("bad files that changed anything", refused - kept + abs(status["failed reloads"] - refused))
        run.none("failed requests", load.failed + load.statuses().get(502, 0) + load.statuses().get(503, 0), load.failures)
        run.figure(f"p99 {1000 * percentile(load.seconds(), 0.99):.0f} ms, longest {1000 * max(load.seconds()):.0f} ms")
        run.balance(service, load)
        run.judge(load)
        # The old generations go as nginx lets go of its connections to them.
        wait_until(lambda: len(service.workers()) == service.status()["total processes"], "the old generations' end", 60)


def refuse(service, broken):
    """Asks for a reload of a bad file. True when the old generation goes on as it was."""
    before = service.status()
    service.configure(**broken)
    service.signal("freshetd", signal.SIGHUP)
    try:
        wait_until(lambda: service.status()["failed reloads"] > before["failed reloads"], "the refusal", 20)
        return service.status()["generation"] == before["generation"]
    finally:
        service.configure()
