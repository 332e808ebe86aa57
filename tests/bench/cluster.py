#!/usr/bin/python3
"""Compares the cost of the same load with one Redis and with a cluster: ./tests/bench/cluster.py [REQUESTS] [TURNS]

Runs the load (reports, views and page reads; 6,000 requests by default) with one Redis, with three masters, and with
three masters that have a replica each, in turns (3 by default). Prints medians. CPU is each server's INFO cpu. Commands
are from INFO commandstats, which includes the inner calls of scripts. --calls adds the number of calls per command.

--spread measures instead how rank writes of REPORTS reports about ARTICLES articles are spread over the partitions and
three masters, with MONITOR. The articles' popularity follows Zipf's law.
"""

import collections
import os
import random
import re
import statistics
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests/e2e")]
# pylint: disable=wrong-import-position
import redis  # noqa: E402
from faults.identities import Reader, prepare  # noqa: E402
from faults.load import Load  # noqa: E402
from faults.scenario import NO_LIMITS  # noqa: E402
from service import LONG_TIMEOUTS, PARTITIONS, Instance, birth, wait_until  # noqa: E402

READERS, CONNECTIONS, THINK_S = 24, 16, 0.0
IDLE_S = 3.0  # how long the idle instance is measured
ARTICLES, REPORTS = 2000, 20000
ONLY = ("history", "timeline", "recommendations", "feed", "item", "history_view", "track", "view")
READS = "(sockets read)"


def fields(text):
    return dict(line.split(":", 1) for line in text.split() if ":" in line)


class Servers:
    """The masters of an instance."""

    def __init__(self, instance):
        self._instance, self._nodes = instance, instance.nodes("master") if instance.masters else [None]

    def _info(self, section):
        return [self._instance.redis_text("INFO", section, node=node) for node in self._nodes]

    def cpu_s(self):
        """Seconds of CPU of each master."""
        return [float(info["used_cpu_user"]) + float(info["used_cpu_sys"]) for info in map(fields, self._info("cpu"))]

    def calls(self):
        """{command: calls} of all masters together. READS: number of reads from sockets."""
        out = {READS: sum(int(info["total_reads_processed"]) for info in map(fields, self._info("stats")))}
        for info in self._info("commandstats"):
            for name, statistic in fields(info).items():
                if name.startswith("cmdstat_"):
                    out[name[8:]] = out.get(name[8:], 0) + int(statistic.split("calls=")[1].split(",")[0])
        return out


def measure(masters, replicas, requests, turn):
    """Returns, per request, the µs of CPU of each master and {command: calls}; then ms of CPU per second of all idle
    masters, and requests per second.
    """
    instance = Instance("--no-limits", *(["--cluster", str(masters)] if masters > 1 else []), **(NO_LIMITS | LONG_TIMEOUTS))
    try:
        instance.start()
        if masters > 1 and not replicas:
            for port in instance.nodes("slave"):
                os.kill(instance.node_pid(port), 15)
                wait_until(lambda port=port: birth(instance.node_pid(port)) is None, "a replica to exit")
        readers = prepare(instance, [Reader(f"bench{turn}x1", number) for number in range(READERS)])
        servers = Servers(instance)
        instance.wait_for_background_writes()
        cpu, since = servers.cpu_s(), time.monotonic()
        time.sleep(IDLE_S)
        idle = [1e3 * (after - before) / (time.monotonic() - since) for before, after in zip(cpu, servers.cpu_s())]
        load = Load(instance, readers, seed=turn, connections=CONNECTIONS, only=ONLY, think_s=THINK_S)
        with load:
            load.wait_for(requests // 8)
            since = time.monotonic()
            cpu, calls, requests_before = servers.cpu_s(), servers.calls(), load.requests
            load.wait_for(requests, 600)
            cpu_after, sent, duration_s = servers.cpu_s(), load.requests - requests_before, time.monotonic() - since
            calls_after = servers.calls()
        assert not load.failures and not load.mixups, load.failures + load.mixups
        return ([1e6 * (after - before) / sent for before, after in zip(cpu, cpu_after)],
                {name: (count - calls.get(name, 0)) / sent for name, count in calls_after.items()}, sum(idle), sent / duration_s)
    finally:
        instance.stop()


class RankWriteMonitor:
    """Counts rank writes (ZADD) on one node and their rank updates (members), by partition, in its own thread until
    stop().
    """

    def __init__(self, instance, node):
        self.writes, self.updates = collections.Counter(), collections.Counter()
        with open(os.path.join(instance.state, "etc/redis-default"), encoding="ascii") as file:
            self._client = redis.Redis(instance.host, node, password=file.read(), encoding_errors="replace", decode_responses=True)
        self._end = f"the end of {node}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        self._ready.wait()

    def _listen(self):
        with self._client.monitor() as monitor:
            self._ready.set()
            for each in monitor.listen():
                if write := re.match(r"ZADD hot:rank:\{(\w+)\} (.*)", each["command"]):
                    self.writes[write.group(1)] += 1
                    self.updates[write.group(1)] += len(write.group(2).split()) // 2
                if self._end in each["command"]:
                    return

    def stop(self):
        self._client.echo(self._end)
        self._thread.join()


def spread():
    instance = Instance("--no-limits", "--cluster", "3", **(NO_LIMITS | LONG_TIMEOUTS))
    try:
        instance.start()
        monitors = [RankWriteMonitor(instance, node) for node in instance.nodes("master")]
        rng = random.Random(1)
        articles = rng.choices(range(ARTICLES), [1 / rank for rank in range(1, ARTICLES + 1)], k=REPORTS)

        def report(share):
            client = instance.internal()
            for number, article in share:
                assert client.track(f"article-{article}", 1000, userId=f"u{number}", sessionId=f"s{number}").status == 200

        numbered = list(enumerate(articles))
        threads = [threading.Thread(target=report, args=(numbered[at::CONNECTIONS],)) for at in range(CONNECTIONS)]
        since = time.monotonic()
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        instance.wait_for_background_writes()
        duration_s = time.monotonic() - since
        for each in monitors:
            each.stop()
        print(f"{REPORTS:,} reports about {ARTICLES:,} articles in {duration_s:.1f} s")
        for label, per_master in (("writes", [each.writes for each in monitors]), ("rank updates", [each.updates for each in monitors])):
            partitions = sum(per_master, collections.Counter())
            total = partitions.total()
            print(f"{total:,} {label} in {len(partitions)} partitions: busiest {max(partitions.values()) / total * PARTITIONS:.2f}/{PARTITIONS}, "
                  f"least busy {min(partitions.values()) / total * PARTITIONS:.2f}/{PARTITIONS}; busiest master {100 * max(each.total() for each in per_master) / total:.0f} %")
    finally:
        instance.stop()


def main():
    if "--spread" in sys.argv:
        spread()
        return
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    requests, turns = (numbers + [6000, 3][len(numbers):])[:2]
    kinds = {"one Redis": (1, False), "three masters": (3, False), "three masters, a replica each": (3, True)}
    results = {kind: [] for kind in kinds}
    for turn in range(turns):
        for kind, (masters, replicas) in kinds.items():
            results[kind].append(measure(masters, replicas, requests, turn))
            print(f"turn {turn + 1}, {kind}: {[round(each) for each in results[kind][-1][0]]} µs", file=sys.stderr, flush=True)

    def median(kind, value):
        return statistics.median(value(*each) for each in results[kind])
    one = median("one Redis", lambda cpu, *_: sum(cpu))
    print("| per request | Redis in total, µs | × | busiest master, relative to one Redis | commands | sockets read | requests/s | idle, ms/s |\n"
          "|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        total, busiest = median(kind, lambda cpu, *_: sum(cpu)), median(kind, lambda cpu, *_: max(cpu))
        print(f"| {kind} | {total:.0f} | {total / one:.2f} | {100 * busiest / one:.0f} % | "
              f"{median(kind, lambda _, calls, *__: sum(calls.values()) - calls[READS]):.1f} | {median(kind, lambda _, calls, *__: calls[READS]):.2f} | "
              f"{median(kind, lambda *each: each[3]):,.0f} | {median(kind, lambda *each: each[2]):.1f} |")
    if "--calls" in sys.argv:
        for name in sorted({name for measured in results.values() for name in measured[-1][1]}):
            row = [measured[-1][1].get(name, 0) for measured in results.values()]
            if max(row) > 0.02:
                print(f"{name:24}" + "".join(f"{each:9.3f}" for each in row))


if __name__ == "__main__":
    main()
