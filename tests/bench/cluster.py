#!/usr/bin/python3
"""What a Redis Cluster takes of its masters for the load that one Redis takes: ./tests/bench/cluster.py [REQUESTS] [TURNS]

Three instances of scripts/run in turns, the same load of each (reports, views, and what pages read): one Redis; three masters; the same
three, each with a replica. CPU is what each server says of itself (INFO cpu) while so many requests were made (6,000), in the median turn (3);
commands are those of INFO commandstats, which counts a script's inner ones, too. --calls: what differs, command by command.

--spread: instead, how many writes of ranks each group and each of three masters gets (MONITOR) of REPORTS reports about ARTICLES articles,
whose readers follow Zipf's law."""

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
from service import GROUPS, PATIENT, Instance, birth, wait_until  # noqa: E402

READERS, CONNECTIONS, THINK_S, IDLE_S = 24, 16, 0.0, 3.0  # seconds between two requests of a connection; seconds to look at an idle one
ARTICLES, REPORTS = 2000, 20000
ONLY = ("history", "timeline", "recommendations", "feed", "item", "look", "track", "view")
READS = "(sockets read)"


def fields(text):
    return dict(line.split(":", 1) for line in text.split() if ":" in line)


class Servers:
    """The masters of an instance; each looked at by itself."""

    def __init__(self, instance):
        self._instance, self._nodes = instance, instance.nodes("master") if instance.masters else [None]

    def _ask(self, *command):
        return [self._instance.redis_text(*command, node=node) for node in self._nodes]

    def cpu_s(self):
        return [float(told["used_cpu_user"]) + float(told["used_cpu_sys"]) for told in map(fields, self._ask("INFO", "cpu"))]

    def calls(self):
        """command → calls; and READS: how often a socket was read, each a turn of the server's loop or a part of one."""
        out = {READS: sum(int(told["total_reads_processed"]) for told in map(fields, self._ask("INFO", "stats")))}
        for told in self._ask("INFO", "commandstats"):
            for name, said in fields(told).items():
                if name.startswith("cmdstat_"):
                    out[name[8:]] = out.get(name[8:], 0) + int(said.split("calls=")[1].split(",")[0])
        return out


def measure(masters, replicas, requests, turn):
    """(µs of CPU of each master, {command: calls}) of one request; ms of CPU a second of all masters before it; requests a second."""
    instance = Instance("--no-limits", *(["--cluster", str(masters)] if masters > 1 else []), **(NO_LIMITS | PATIENT))
    try:
        instance.start()
        if masters > 1 and not replicas:
            for port in instance.nodes("slave"):
                os.kill(instance.node_pid(port), 15)
                wait_until(lambda port=port: birth(instance.node_pid(port)) is None, "a replica's end")
        readers = prepare(instance, [Reader(f"bench{turn}x1", number) for number in range(READERS)])
        servers = Servers(instance)
        instance.await_placed()
        cpu, since = servers.cpu_s(), time.monotonic()
        time.sleep(IDLE_S)
        idle = [1e3 * (after - first) / (time.monotonic() - since) for first, after in zip(cpu, servers.cpu_s())]
        load = Load(instance, readers, seed=turn, connections=CONNECTIONS, only=ONLY, think_s=THINK_S)
        with load:
            load.wait_for(requests // 8)
            since = time.monotonic()
            cpu, calls, before = servers.cpu_s(), servers.calls(), load.requests
            load.wait_for(requests, 600)
            used, made, took = servers.cpu_s(), load.requests - before, time.monotonic() - since
            later = servers.calls()
        assert not load.failures and not load.mixups, load.failures + load.mixups
        return ([1e6 * (after - first) / made for first, after in zip(cpu, used)],
                {name: (count - calls.get(name, 0)) / made for name, count in later.items()}, sum(idle), made / took)
    finally:
        instance.stop()


class Watch:
    """Counts the ZADDs of each group's ranks on one node, and the places that they write, until end(), on a thread of its own."""

    def __init__(self, instance, node):
        self.writes, self.places = collections.Counter(), collections.Counter()
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
                if written := re.match(r"ZADD hot:rank:\{(\w+)\} (.*)", each["command"]):
                    self.writes[written.group(1)] += 1
                    self.places[written.group(1)] += len(written.group(2).split()) // 2
                if self._end in each["command"]:
                    return

    def end(self):
        self._client.echo(self._end)
        self._thread.join()


def spread():
    instance = Instance("--no-limits", "--cluster", "3", **(NO_LIMITS | PATIENT))
    try:
        instance.start()
        watched = {node: Watch(instance, node) for node in instance.nodes("master")}
        draw = random.Random(1)
        articles = draw.choices(range(ARTICLES), [1 / rank for rank in range(1, ARTICLES + 1)], k=REPORTS)

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
        instance.await_placed()
        took = time.monotonic() - since
        for each in watched.values():
            each.end()
        print(f"{REPORTS:,} reports about {ARTICLES:,} articles in {took:.1f} s")
        for what in ("writes", "places"):
            of = [getattr(each, what) for each in watched.values()]
            groups = sum(of, collections.Counter())
            total = groups.total()
            print(f"{total:,} {what} of {len(groups)} groups: the most of one {max(groups.values()) / total * GROUPS:.2f}/G, "
                  f"the least {min(groups.values()) / total * GROUPS:.2f}/G; the most of a master {100 * max(each.total() for each in of) / total:.0f} %")
    finally:
        instance.stop()


def main():
    if "--spread" in sys.argv:
        spread()
        return
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    requests, turns = (numbers + [6000, 3][len(numbers):])[:2]
    kinds = {"one Redis": (1, False), "three masters": (3, False), "three masters, a replica each": (3, True)}
    told = {kind: [] for kind in kinds}
    for turn in range(turns):
        for kind, (masters, replicas) in kinds.items():
            told[kind].append(measure(masters, replicas, requests, turn))
            print(f"turn {turn + 1}, {kind}: {[round(each) for each in told[kind][-1][0]]} µs", file=sys.stderr, flush=True)
    def median(kind, of):
        return statistics.median(of(*each) for each in told[kind])
    one = median("one Redis", lambda cpu, *_: sum(cpu))
    print("| of one request | Redis summed, µs | × | the busiest, of one's | commands | sockets read | requests/s | idle, ms/s |\n|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        total, most = median(kind, lambda cpu, *_: sum(cpu)), median(kind, lambda cpu, *_: max(cpu))
        print(f"| {kind} | {total:.0f} | {total / one:.2f} | {100 * most / one:.0f} % | "
              f"{median(kind, lambda _, calls, *__: sum(calls.values()) - calls[READS]):.1f} | {median(kind, lambda _, calls, *__: calls[READS]):.2f} | "
              f"{median(kind, lambda *each: each[3]):,.0f} | {median(kind, lambda *each: each[2]):.1f} |")
    if "--calls" in sys.argv:
        for name in sorted({name for measured in told.values() for name in measured[-1][1]}):
            row = [measured[-1][1].get(name, 0) for measured in told.values()]
            if max(row) > 0.02:
                print(f"{name:24}" + "".join(f"{each:9.3f}" for each in row))


if __name__ == "__main__":
    main()
