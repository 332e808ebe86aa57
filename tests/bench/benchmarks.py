"""The benchmarks by name. Each takes a Session and returns Sections; targets.py says what they should show."""

import os
import signal
import statistics
import time
import urllib.request
from dataclasses import dataclass, field

import feed_bench
import load
import ours
import peers
import procs
import recommend_bench
import redis_server
import seen_bench
import turns
import waterfall_bench
from peers import Contender
from procs import BenchError
from workload import Workload

STARTS = 5
RELOADS = 20
RELOAD_CONNECTIONS = 8
PRELOAD_SLICE_S = 10
PRELOAD_SLICES = 60
PRELOAD_PER_SECOND = 20_000  # about what one turn sends; only decides how long the last slices are
LONGEST_HISTORY = """
local most = 0
for reader = 0, 999 do most = math.max(most, redis.call('LLEN', 'user:views:topic:{u' .. reader .. '}')) end
return most
"""


@dataclass
class Section:
    """A part of the report: rows of turns, or single measured values as (label, value, unit)."""
    key: str
    title: str
    rows: list = field(default_factory=list)
    values: list = field(default_factory=list)
    problems: list = field(default_factory=list)

    def row(self, contender):
        return next((row for row in self.rows if row.contender == contender), None)

    def value(self, label):
        return next((value for name, value, _ in self.values if name == label), None)


@dataclass
class Session:
    """What the benchmarks share: options and the deployments that run, started when first asked for."""
    directory: str
    seconds: int
    rounds: int
    track_connections: tuple
    growth_articles: int
    growth_timelines: int
    growth_readers: int
    requests: int
    with_ours: bool = True
    running: dict = field(default_factory=dict)
    workload_kept: object = None

    def deployment(self, name):
        starters = {"php-fpm": peers.php_fpm, "nginx-lua": peers.nginx_lua, "libfcgi-echo": peers.libfcgi_echo,
                    "nginx-static": peers.nginx_static, "freshet": ours.Ours}
        if name not in self.running:
            self.running[name] = starters[name](self.directory)
        return self.running[name]

    def ours(self, *arguments, **options):
        """A list of one contender of ours, or of none when only the peers run."""
        return [Contender(arguments[0], self.deployment("freshet"), *arguments[1:], **options)] if self.with_ours else []

    def workload(self):
        if self.workload_kept is None:
            self.workload_kept = Workload(os.path.join(self.directory, "requests.ndjson"), requests=self.requests)
        return self.workload_kept

    def turns(self, contenders, connections, **options):
        return turns.take_turns(contenders, connections, self.seconds, self.rounds, **options)

    def stop(self):
        for deployment in reversed(list(self.running.values())):
            deployment.stop()
        self.running.clear()


def ping(session):
    """P1: what the way through nginx and a worker costs when there is nothing to do."""
    contenders = session.ours("freshet ping", "/ping", internal=True) + [
        Contender("libfcgi echo", session.deployment("libfcgi-echo")),
        Contender("PHP-FPM hello", session.deployment("php-fpm"), "/hello"),
        Contender("nginx return 200", session.deployment("nginx-static"))]
    return [Section("ping", "P1 the gateway's floor: GET, an empty reply", session.turns(contenders, 32))]


# What the original does, and no more: no interests by reading, no memory of what a visitor added.
COUNTING_ONLY = {"feed.interest_min_dwell": '"1h"', "limits.contribution_ttl": '"0s"'}


def track_contenders(session):
    php, lua = session.deployment("php-fpm"), session.deployment("nginx-lua")
    counting = []
    if session.with_ours:
        if "freshet-counting" not in session.running:
            session.running["freshet-counting"] = ours.Ours(session.directory, "freshet-counting", settings=COUNTING_ONLY)
        counting = [Contender("freshet track", session.running["freshet-counting"], "/api/track", "track.lua")]
    return counting + session.ours("freshet track, as shipped", "/api/track", "track.lua") + [
        Contender("PHP-FPM, seed's script", php, "/track_seed", "track.lua", counts_all=True),
        Contender("PHP-FPM, our script", php, "/track_ours", "track.lua"),
        Contender("nginx-lua, seed's script", lua, "/track_seed", "track.lua", counts_all=True),
        Contender("nginx-lua, our script", lua, "/track_ours", "track.lua")]


def track(session):
    """P2: a report of reading, from an empty store, at several numbers of connections."""
    workload = session.workload()
    sections = []
    for connections in session.track_connections:
        rows = session.turns(track_contenders(session), connections, script_args=[workload.path],
                             before=turns.start_empty, after=turns.check_counters(workload))
        section = Section(f"track-{connections}", f"P2 POST /api/track, {connections} connections", rows)
        if session.with_ours:
            ping = turns.take_turns([Contender("ping", session.running["freshet-counting"], "/ping", internal=True)], connections, session.seconds, 1)[0]
            section.values.append(("freshet track: the worker's CPU ÷ that of its ping", cpu_of("worker", rows[0]) / cpu_of("worker", ping), "×"))
            for row in rows[:2]:  # "our script" has no interests and no memory of what a visitor added either
                section.values.append((f"{row.contender}: Redis' CPU ÷ that of nginx-lua, our script", cpu_of("redis", row) / cpu_of("redis", rows[-1]), "×"))
        sections.append(section)
    return sections


def cpu_of(group, row):
    return row.median(lambda turn: turn.cpu_us[group])


def hot(session):
    """P3: the hot list, out of nginx' cache and out of a worker's snapshot."""
    fill(session, 1000)
    hit = session.ours("freshet hot, nginx cache hit", "/api/hot?model=engagement") + [
        Contender("nginx return 200", session.deployment("nginx-static"))]
    sections = [Section("hot-hit", "P3 GET /api/hot out of nginx' cache", session.turns(hit, 32, before=ask_once))]
    miss = session.ours("freshet hot, from the worker", "/api/hot?model=engagement", internal=True)
    if miss:
        miss += session.ours("freshet ping", "/ping", internal=True)
        sections.append(Section("hot-miss", "P3 GET /api/hot out of the worker's snapshot", session.turns(miss, 32)))
    return sections


def ask_once(contender):
    """For take_turns: what is cached is there when the turn begins. Those who ask first wait for the cache's lock."""
    with urllib.request.urlopen(contender.url, timeout=5) as reply:
        reply.read()


def history(session):
    """P7: a reader's view of a topic: ours distinct, with its time, in one round trip; the peer's as its seed writes it, in three."""
    contenders = session.ours("freshet history", "/api/history", "history.lua") + [
        Contender("PHP-FPM, seed's calls", session.deployment("php-fpm"), "/history_seed", "history.lua")]
    rows = session.turns(contenders, 32, script_args=["100000", "10000"], before=turns.start_empty, after=check_histories)
    return [Section("history", "P7 POST /api/history, 32 connections", rows)]


def check_histories(contender, turn):
    """For take_turns: what the views left is there, and capped."""
    longest = contender.deployment.redis_client().eval(LONGEST_HISTORY, 0)
    if not 0 < longest <= 10:
        turn.problems.append(f"the longest history has {longest} topics")


def fill(session, articles):
    """Sends one view of each of `articles` articles to ours, if it runs."""
    for contender in session.ours("freshet fill", "/api/track", "preload.lua"):
        preload(contender, articles)


def preload(contender, articles):
    """Sends views of a1, a2 … until the rank holds `articles` of them. The append-only file is off meanwhile."""
    client = contender.deployment.redis_client()
    client.config_set("appendonly", "no")
    first = 1
    for _ in range(PRELOAD_SLICES):
        left = articles - client.zcard("hot:rank")
        if left <= 0:
            break
        seconds = min(max(left // PRELOAD_PER_SECOND, 1), PRELOAD_SLICE_S)
        turn = load.run(contender, 32, seconds, [first, articles])
        first = (first + turn.requests - 1) % articles + 1
    else:
        raise BenchError(f"could not fill the store with {articles} articles: {turn.problems}")
    client.config_set("appendonly", "yes")
    redis_server.compact(client)


# Of the master, beside its workers.
OTHER_CHILDREN = {"freshetd-record", "freshetd-status", "freshetd-model"}


def memory(session):
    """P8: what a process of the pool takes after load, each page it shares with others counted in part."""
    workload = session.workload()
    contenders = session.ours("freshet", "/api/track", "track.lua") + [
        Contender("PHP-FPM", session.deployment("php-fpm"), "/track_ours", "track.lua")]
    section = Section("memory", "P8 memory of each worker after load")
    for contender in contenders:
        turns.start_empty(contender)
        section.problems += load.run(contender, 128, session.seconds, [workload.path]).problems
        sizes = [procs.pss_kib(pid) / 1024 for pid in contender.deployment.groups()["worker"][1:] if procs.name(pid) not in OTHER_CHILDREN]
        section.values.append((f"{contender.name}: largest worker", max(sizes), "MiB"))
        section.values.append((f"{contender.name}: all workers", sum(sizes), "MiB"))
    return [section]


def growth(session):
    """P9: a report when the store holds many articles, all of them read evenly, the hardest case; a refresh among many readers."""
    if not session.with_ours:
        return []
    contenders, workloads = [], {}
    for label, articles in (("many", session.growth_articles), ("few", 1000)):
        name = f"freshet-{label}"
        session.running[name] = session.running.get(name) or ours.Ours(session.directory, name)
        contender = Contender(f"freshet track, {articles:,} articles", session.running[name], "/api/track", "preload.lua")
        preload(contender, articles)
        contender.script = "track.lua"
        workloads[contender.name] = Workload(os.path.join(session.directory, name + ".ndjson"), articles, zipf=False,
                                              requests=session.requests)
        contenders.append(contender)
    rows = turns.take_turns(contenders, 32, session.seconds, session.rounds,
                            script_args=lambda contender: [workloads[contender.name].path])
    return [Section("growth", "P9 POST /api/track as the store grows", rows)] + feed_bench.growth(session, Section)


def start(session):
    """P10: from exec to READY=1 on systemd's socket, and what a reload under load costs its clients."""
    section = Section("start", "P10 start and reload")
    deployments = ([("freshet", session.deployment("freshet"), "/api/track")] if session.with_ours else []) + [
        ("PHP-FPM", session.deployment("php-fpm"), "/track_ours")]
    for name, deployment, path in deployments:
        copy = os.path.join(session.directory, deployment.name + "-start")
        argv = deployment.ready_command(copy)
        times = [ours.milliseconds_to_ready(argv, session.directory) for _ in range(STARTS)]
        section.values.append((f"{name}: start to READY", statistics.median(times), "ms"))
        turn = reload_under_load(Contender(name, deployment, path, "track.lua"), session.workload().path)
        kinds = {kind: count for kind, count in turn.errors.items() if count}
        section.values.append((f"{name}: failed requests in {RELOADS} reloads", turn.failed(),
                               f"of {turn.requests:,} {kinds or ''}".strip()))
        section.values.append((f"{name}: slowest request meanwhile", turn.max_us / 1e3, "ms"))
    return [section]


def reload_under_load(contender, requests_path):
    """RELOADS times SIGUSR2 to the master while wrk runs; wrk's result."""
    interval_s = 0.4
    seconds = round(RELOADS * interval_s) + 2
    with load.start(contender, RELOAD_CONNECTIONS, seconds, [requests_path]) as wrk:
        procs.wait_until(lambda: load.connections_to(contender.deployment.address_of(contender)), "wrk to connect",
                         load.START_LIMIT_S)
        for _ in range(RELOADS):
            time.sleep(interval_s)
            os.kill(contender.deployment.master_pid(), signal.SIGUSR2)
        return load.finish(wrk, seconds)


def feed(session):
    """P4, P5: a page of the buffer, and a refresh with recall and the seen-filter."""
    return feed_bench.feed(session, Section)


def seen(session):
    """P5, P8: what it takes to know what a reader has seen."""
    return seen_bench.seen(session, Section)


def recommend(session):
    """P6: recommendations out of the mapped model, the worker's copy of the trend and the reader's state."""
    return recommend_bench.recommend(session, Section)


def waterfall(session):
    """P7: pages of timelines, pushes, and many timelines."""
    return waterfall_bench.waterfall(session, Section)


BENCHMARKS = {"ping": ping, "track": track, "hot": hot, "history": history, "memory": memory, "growth": growth, "start": start, "feed": feed, "seen": seen, "recommend": recommend,
              "waterfall": waterfall}
