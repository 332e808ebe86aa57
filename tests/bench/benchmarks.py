"""The benchmarks by name. Each takes a Session and returns Sections. targets.py has the targets."""

import os
import signal
import statistics
import time
import urllib.request
from dataclasses import dataclass, field

import feed_bench
import freshet
import interests_bench
import load
import peers
import procs
import reader_day
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
PRELOAD_PER_SECOND = 20_000  # estimated rate, which determines the length of the last slices
MAX_HISTORY_LENGTH = """
local longest = 0
for reader = 0, 999 do longest = math.max(longest, redis.call('LLEN', 'user:views:topic:{u' .. reader .. '}')) end
return longest
"""


@dataclass
class Section:
    """A part of the report: rows of turns, and single values as (label, value, unit)."""
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
    """Options and running deployments, which the benchmarks share. Deployments start on first use."""
    directory: str
    seconds: int
    rounds: int
    track_connections: tuple
    growth_articles: int
    growth_timelines: int
    growth_readers: int
    requests: int
    interests: int = 0  # of each reader of feed; 0: its benchmarks of readers without any
    items: int = 20_000  # for readers with interests
    corpus: str = "zipf"
    min_slow_seconds: int = 5  # of turns with searches of 20 ms, for hundreds of them
    with_freshet: bool = True
    running: dict = field(default_factory=dict)
    cached_workload: object = None

    def deployment(self, name):
        starters = {"php-fpm": peers.php_fpm, "nginx-lua": peers.nginx_lua, "libfcgi-echo": peers.libfcgi_echo,
                    "nginx-static": peers.nginx_static, "freshet": freshet.Freshet}
        if name not in self.running:
            self.running[name] = starters[name](self.directory)
        return self.running[name]

    def freshet_contenders(self, *arguments, **options):
        """A list with a contender for Freshet, or an empty list if only the peers run."""
        return [Contender(arguments[0], self.deployment("freshet"), *arguments[1:], **options)] if self.with_freshet else []

    def workload(self):
        if self.cached_workload is None:
            self.cached_workload = Workload(os.path.join(self.directory, "requests.ndjson"), requests=self.requests)
        return self.cached_workload

    def turns(self, contenders, connections, **options):
        return turns.take_turns(contenders, connections, self.seconds, self.rounds, **options)

    def slow_turns(self, contenders, connections, **options):
        return turns.take_turns(contenders, connections, max(self.seconds, self.min_slow_seconds), self.rounds, **options)

    def stop(self):
        for deployment in reversed(list(self.running.values())):
            deployment.stop()
        self.running.clear()


def ping(session):
    """P1: the cost of a request that does nothing, through nginx and a worker."""
    contenders = session.freshet_contenders("Freshet ping", "/ping", internal=True) + [
        Contender("libfcgi echo", session.deployment("libfcgi-echo")),
        Contender("PHP-FPM hello", session.deployment("php-fpm"), "/hello"),
        Contender("nginx return 200", session.deployment("nginx-static"))]
    return [Section("ping", "P1 the gateway: GET, empty reply, 32 connections", session.turns(contenders, 32))]


# Only the work of the original script. The article still enters the reader's seen filter, which cannot be turned off.
COUNTING_ONLY = {"feed.interest_min_dwell": '"1h"', "limits.contribution_ttl": '"0s"', "views.from_track": "false", "history.from_track": "false"}


def track_contenders(session):
    php, lua = session.deployment("php-fpm"), session.deployment("nginx-lua")
    counting = []
    if session.with_freshet:
        if "freshet-counting" not in session.running:
            session.running["freshet-counting"] = freshet.Freshet(session.directory, "freshet-counting", settings=COUNTING_ONLY)
        counting = [Contender("Freshet track, counting only", session.running["freshet-counting"], "/api/track", "track.lua")]
    return counting + session.freshet_contenders("Freshet track, as shipped", "/api/track", "track.lua") + [
        Contender("PHP-FPM, original script", php, "/track_seed", "track.lua", counts_all=True),
        Contender("PHP-FPM, our earlier script", php, "/track_ours", "track.lua"),
        Contender("nginx-lua, original script", lua, "/track_seed", "track.lua", counts_all=True),
        Contender("nginx-lua, our earlier script", lua, "/track_ours", "track.lua")]


def track(session):
    """P2: reports of reading into an empty store, with different numbers of connections."""
    workload = session.workload()
    sections = []
    for connections in session.track_connections:
        rows = session.turns(track_contenders(session), connections, script_args=[workload.path],
                             before=turns.start_empty, after=turns.check_counters(workload))
        section = Section(f"track-{connections}", f"P2 POST /api/track, {connections} connections", rows)
        if session.with_freshet:
            ping = turns.take_turns([Contender("ping", session.running["freshet-counting"], "/ping", internal=True)], connections, session.seconds, 1)[0]
            section.values.append(("Freshet track, counting only: worker's CPU ÷ that of its ping", median_cpu("worker", rows[0]) / median_cpu("worker", ping), "×"))
            for row in rows[:2]:  # our earlier script has no interests and contributions either
                section.values.append((f"{row.contender}: Redis' CPU ÷ that of nginx-lua, our earlier script", median_cpu("redis", row) / median_cpu("redis", rows[-1]), "×"))
        sections.append(section)
    return sections


def median_cpu(group, row):
    return row.median(lambda turn: turn.cpu_us[group])


def hot(session):
    """P3: the hot list from nginx's cache and from a worker's snapshot."""
    fill(session, 1000)
    hit = session.freshet_contenders("Freshet hot, nginx cache hit", "/api/hot?model=engagement") + [
        Contender("nginx return 200", session.deployment("nginx-static"))]
    sections = [Section("hot-hit", "P3 GET /api/hot from nginx's cache", session.turns(hit, 32, before=warm_cache))]
    miss = session.freshet_contenders("Freshet hot, from the worker", "/api/hot?model=engagement", internal=True)
    if miss:
        miss += session.freshet_contenders("Freshet ping", "/ping", internal=True)
        sections.append(Section("hot-miss", "P3 GET /api/hot from the worker's snapshot", session.turns(miss, 32)))
    return sections


def warm_cache(contender):
    """For take_turns: fills nginx's cache, since the first requests would wait for the cache lock."""
    with urllib.request.urlopen(contender.url, timeout=5) as reply:
        reply.read()


def history(session):
    """P7: views of topics. Freshet stores distinct topics with times in one round trip; the peer makes the original's
    three calls.
    """
    contenders = session.freshet_contenders("Freshet history", "/api/history", "history.lua") + [
        Contender("PHP-FPM, original calls", session.deployment("php-fpm"), "/history_seed", "history.lua")]
    rows = session.turns(contenders, 32, script_args=["100000", "10000"], before=turns.start_empty, after=check_histories)
    return [Section("history", "P7 POST /api/history, 32 connections", rows)]


def check_histories(contender, turn):
    """For take_turns: checks that views were stored and histories are capped."""
    longest = contender.deployment.redis_client().eval(MAX_HISTORY_LENGTH, 0)
    if not 0 < longest <= 10:
        turn.problems.append(f"the longest history has {longest} topics")


def fill(session, articles):
    """Sends one view of each of `articles` articles to Freshet, if it runs."""
    for contender in session.freshet_contenders("Freshet fill", "/api/track", "preload.lua"):
        preload(contender, articles)


def preload(contender, articles):
    """Sends views of a1, a2 … until the rank has `articles` members, with the append-only file off."""
    client = contender.deployment.redis_client()
    client.config_set("appendonly", "no")
    first = 1
    for _ in range(PRELOAD_SLICES):
        missing = articles - client.zcard("hot:rank")
        if missing <= 0:
            break
        seconds = min(max(missing // PRELOAD_PER_SECOND, 1), PRELOAD_SLICE_S)
        turn = load.run(contender, 32, seconds, [first, articles])
        first = (first + turn.requests - 1) % articles + 1
    else:
        raise BenchError(f"could not fill the store with {articles} articles: {turn.problems}")
    client.config_set("appendonly", "yes")
    redis_server.rewrite_aof(client)


# Children of the master that are not workers.
HELPER_PROCESSES = {"freshetd-record", "freshetd-status", "freshetd-model"}


def memory(session):
    """P8: memory of a worker after load, with shared pages counted proportionally (PSS)."""
    workload = session.workload()
    contenders = session.freshet_contenders("Freshet", "/api/track", "track.lua") + [
        Contender("PHP-FPM", session.deployment("php-fpm"), "/track_ours", "track.lua")]
    section = Section("memory", "P8 memory of each worker after load")
    for contender in contenders:
        turns.start_empty(contender)
        section.problems += load.run(contender, 128, session.seconds, [workload.path]).problems
        sizes = [procs.pss_kib(pid) / 1024 for pid in contender.deployment.groups()["worker"][1:] if procs.process_name(pid) not in HELPER_PROCESSES]
        section.values.append((f"{contender.name}: largest worker", max(sizes), "MiB"))
        section.values.append((f"{contender.name}: all workers", sum(sizes), "MiB"))
    return [section]


def growth(session):
    """P9: reports in a store with many articles that are read equally often, which is the worst case; and refreshes
    among many readers.
    """
    if not session.with_freshet:
        return []
    contenders, workloads = [], {}
    for label, articles in (("many", session.growth_articles), ("few", 1000)):
        name = f"freshet-{label}"
        session.running[name] = session.running.get(name) or freshet.Freshet(session.directory, name)
        contender = Contender(f"Freshet track, {articles:,} articles", session.running[name], "/api/track", "preload.lua")
        preload(contender, articles)
        contender.script = "track.lua"
        workloads[contender.name] = Workload(os.path.join(session.directory, name + ".ndjson"), articles, zipf=False,
                                              requests=session.requests)
        contenders.append(contender)
    rows = turns.take_turns(contenders, 32, session.seconds, session.rounds,
                            script_args=lambda contender: [workloads[contender.name].path])
    return [Section("growth", "P9 POST /api/track by number of articles", rows)] + feed_bench.growth(session, Section)


def start(session):
    """P10: time from exec to READY=1 on systemd's socket, and requests that fail or wait during reloads."""
    section = Section("start", "P10 start and reload")
    deployments = ([("Freshet", session.deployment("freshet"), "/api/track")] if session.with_freshet else []) + [
        ("PHP-FPM", session.deployment("php-fpm"), "/track_ours")]
    for name, deployment, path in deployments:
        copy = os.path.join(session.directory, deployment.name + "-start")
        argv = deployment.ready_command(copy)
        times = [freshet.milliseconds_to_ready(argv, session.directory) for _ in range(STARTS)]
        section.values.append((f"{name}: start to READY", statistics.median(times), "ms"))
        turn = reload_under_load(Contender(name, deployment, path, "track.lua"), session.workload().path)
        errors = {kind: count for kind, count in turn.errors.items() if count}
        section.values.append((f"{name}: failed requests in {RELOADS} reloads", turn.failed(),
                               f"of {turn.requests:,} {errors or ''}".strip()))
        section.values.append((f"{name}: slowest request meanwhile", turn.max_us / 1e3, "ms"))
    return [section]


def reload_under_load(contender, requests_path):
    """Sends RELOADS times SIGUSR2 to the master while wrk runs. Returns wrk's result."""
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
    """P4, P5: a page from the buffer, and a refresh with recall and the seen filter. With interests: refreshes only."""
    if session.interests and session.with_freshet:
        return interests_bench.feed(session, Section, [("Freshet", interests_bench.filled_deployment(session, "freshet-interests"))])
    return feed_bench.feed(session, Section)


def seen(session):
    """P5, P8: CPU and memory of the seen filter."""
    return seen_bench.seen(session, Section)


def recommend(session):
    """P6: recommendations."""
    return recommend_bench.recommend(session, Section)


def reader_day_of_scale(session):
    """P11: the mix of SCALE.md's arithmetic."""
    deployments = [("Freshet", reader_day.filled_deployment(session, "freshet-reader-day"))] if session.with_freshet else []
    return reader_day.reader_day(session, Section, deployments)


def waterfall(session):
    """P7, P9: pages of timelines and pushes, also with many timelines."""
    return waterfall_bench.waterfall(session, Section)


BENCHMARKS = {"ping": ping, "track": track, "hot": hot, "history": history, "memory": memory, "growth": growth, "start": start, "feed": feed, "seen": seen, "recommend": recommend,
              "waterfall": waterfall, "reader-day": reader_day_of_scale}
