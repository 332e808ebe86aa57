"""F16: clocks jump. Workers follow Redis' clock, so the host's must not matter to them, and Redis' must lose nothing."""

import contextlib
import math
import os
import time

from recorded import RecorderData
from service import CLOCK_TICKS, cpu_ticks, wait_until
from shifted_clock import ShiftedClock

from faults.load import OPERATIONS
from faults.redis_faults import OUTAGE_STATUSES, expect_reads_served
from faults.scenario import fault, readable_folder

HOUR_S, DAY_S = 3600, 86400
AGE_S = 5 * DAY_S            # of an article before the first jump
MAX_AGE_ERROR_S = HOUR_S / 2
MAX_IDLE_CORES = 0.6         # of all of freshetd without requests
DIRECTIVES = {"limits__views_rate": "1", "limits__views_burst": "3", "list__rebuild_interval": '"1s"'}


class LimitedClient:
    """A client that uses up its limit of views."""

    def __init__(self, service, number):
        self._client, self._name = service.public(source=f"127.88.{number}.1"), f"f{number}"
        assert self._status() == 200
        wait_until(lambda: self._status() == 429, "a refused view", 20)

    def _status(self):
        return self._client.view("limited", self._name).status

    def recovers(self):
        """Returns whether it is served within seconds."""
        with contextlib.suppress(AssertionError):
            return wait_until(lambda: self._status() == 200, "the limit to recover", 10)
        return False


def listed_ages_s(service):
    """The ages of the listed articles, which the workers compute by their own time, or None for those without a date."""
    reply = service.internal().get("/api/hot?model=engagement&limit=100")
    assert reply.status == 200, reply
    return {item["id"]: item.get("age") for item in reply.json()}


def wrong_list(service):
    """Returns what is wrong with the engagement list, or None."""
    reply = service.internal().get("/api/hot?model=engagement&limit=100")
    if reply.status != 200:
        return repr(reply)
    scores = [item["score"] for item in reply.json()]
    return None if all(math.isfinite(each) and each >= 0 for each in scores) and scores == sorted(scores, reverse=True) else f"scores {scores}"


def idle_cores(service, seconds):
    """CPU time of freshetd's processes per second."""
    def ticks():
        return sum(map(cpu_ticks, [service.pid("freshetd"), *service.workers(), service.recorder(), service.status_process()]))
    before = ticks()
    time.sleep(seconds)
    return (ticks() - before) / CLOCK_TICKS / seconds


def jump_under_load(run, redis_too):
    # Redis' clock is never set before the real time: the readers' items would be future-dated and invisible.
    offsets = [HOUR_S, 0, 2 * DAY_S, 0] + run.scale([], [HOUR_S, 0, 2 * DAY_S, 0] if redis_too else [-HOUR_S, 0, -2 * DAY_S, 0])
    with readable_folder() as folder:
        clock = ShiftedClock(os.path.join(folder, "clock"))
        with run.instance(long_timeouts=True, environment=clock.environment, **DIRECTIVES) as service:
            def restart_redis():
                service.restart_redis(environment=clock.environment if redis_too else None)
                wait_until(lambda: service.status()["redis ready"] == len(service.workers()), "all workers to connect")
            if not redis_too:  # started with the others' clock
                service.make_redis_unavailable()
                restart_redis()
            service.put("aging", published_at=int(time.time()) - AGE_S)
            service.put("limited")
            assert service.internal().track("aging", 1).status == 200
            processes = {service.pid("freshetd"), *service.workers(), service.recorder()}
            # An event that is repeated after its id has expired counts twice, so none is repeated after a reply.
            load = run.load(service, run.readers(service, 12), connections=4, think_s=0.02, allowed=OUTAGE_STATUSES, repeat_share=0,
                            only={each.name for each in OPERATIONS} - {"view"})
            recorded, lists, unrecovered = {}, [], 0
            with load:
                load.wait_for(100)
                began = time.monotonic()
                for number, offset in enumerate(offsets):
                    limited = LimitedClient(service, number)
                    if number == 0:  # with reports in the spool
                        service.make_redis_unavailable()
                        wait_until(lambda: service.status()["spooled bytes"] > 0, "spooled reports")
                        clock.set(offset)
                        restart_redis()
                        wait_until(lambda: service.status()["spooled bytes"] == 0, "the spool to be delivered", 60)
                    clock.set(offset)
                    name, age_s = f"put-at-{number}", AGE_S + (offset if redis_too else 0)
                    recorded[name] = service.put(name)["title"]
                    assert service.internal().track(name, 60_000).status == 200

                    def built_since_the_jump(name=name, age_s=age_s):
                        ages = listed_ages_s(service)
                        return name in ages and abs(ages["aging"] - age_s) < MAX_AGE_ERROR_S

                    wait_until(built_since_the_jump, f"a list with the workers' time at {offset:+d} s", 20)
                    load.wait_for(run.scale(100, 1500))
                    unrecovered += not limited.recovers()
                    lists.append(wrong_list(service))
                until = time.monotonic()
            label = "Redis' clock too" if redis_too else "the host's clock"
            run.report(f"{label}: {len(offsets)} jumps, {load.requests:,} requests")
            expect_reads_served(run, load, began, until)
            run.expect_none("limits that did not recover", unrecovered)
            run.expect_none("wrong lists", sum(each is not None for each in lists), [each for each in lists if each])
            run.expect_none("unexpected replies", load.failed, load.failures)
            run.expect_none("processes lost", len(processes - {service.pid("freshetd"), *service.workers(), service.recorder()}))
            wait_until(lambda: set(recorded.items()) <= set(RecorderData(service).titles().items()), "the items to be recorded")
            run.check_events(service, load)
            cores = idle_cores(service, 1)
            run.report(f"idle at {cores:.2f} cores", cores <= MAX_IDLE_CORES, safety=True)
            run.expect_none("mixed up", load.mixed_up, load.mixups)


@fault("F16", "the clock of the host, then Redis' clock too, jumps an hour and two days, forward and back", "0 lost, 0 counted twice; limits recover in seconds")
def clocks_jump(run):
    for redis_too in (False, True):
        jump_under_load(run, redis_too)
