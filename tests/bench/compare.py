"""Compares this tree with another revision, in turns, to show the effect of a change: scripts/bench compare REV."""

import os
import subprocess

import freshet
import interests_bench
import load
import reader_day
import turns
from benchmarks import Section, warm_cache
from peers import ROOT, Contender
from procs import BenchError

# Uses only the HTTP interface, since the other revision may have other keys.
CONNECTIONS = 32
ROUTES = (("ping", "/ping", "get.lua", True), ("track", "/api/track", "track.lua", False), ("history", "/api/history", "history.lua", False),
          ("hot list", "/api/hot?model=engagement", "get.lua", True), ("cached hot list", "/api/hot?model=engagement", "get.lua", False))
READERS, TOPICS = "100000", "10000"  # arguments of history.lua


def checkout(revision):
    """Unpacks the sources of `revision` into build/compare/COMMIT, unless they are already there. Returns the commit and
    the folder.
    """
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--verify", "--short=12", revision + "^{commit}"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"unknown revision {revision}: {done.stderr.strip()}")
    commit = done.stdout.strip()
    folder = os.path.join(ROOT, "build", "compare", commit)
    if not os.path.exists(os.path.join(folder, "scripts", "run")):
        os.makedirs(folder, exist_ok=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", commit], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return commit, folder


def compare(session, revision, names):
    """Returns sections with two rows each. A ratio is this tree's value divided by the other's. names: the benchmarks;
    none: those of ROUTES.
    """
    commit, folder = checkout(revision)
    for name, bench, measure in (("feed", interests_bench, interests_bench.feed), ("reader-day", reader_day, reader_day.reader_day)):
        if names == [name]:
            return measure(session, Section, [("Freshet, this tree", bench.filled_deployment(session, "freshet-current")),
                                              (commit, bench.filled_deployment(session, "freshet-" + commit, folder))])
    current, other = freshet.Freshet(session.directory, "freshet"), freshet.Freshet(session.directory, "freshet-" + commit, root=folder)
    session.running.update({"current": current, "other": other})
    sections = []
    for title, path, script, internal in ROUTES:
        contenders = [Contender("Freshet, this tree", current, path, script, internal=internal),
                      Contender(commit, other, path, script, internal=internal)]
        arguments = {"track.lua": [session.workload().path], "history.lua": [READERS, TOPICS]}.get(script, [])
        if title.endswith("hot list"):
            for contender in contenders:
                load.run(Contender(contender.name, contender.deployment, "/api/track", "track.lua"), 8, 1, [session.workload().path])
        rows = session.turns(contenders, CONNECTIONS, script_args=arguments, before=warm_cache if script == "get.lua" else turns.start_empty)
        sections.append(Section("compare-" + title.replace(" ", "-"), f"{title}, {CONNECTIONS} connections", rows))
        sections.append(Section("compare-cpu-" + title.replace(" ", "-"), f"{title}: µs of CPU a request", values=[
            (f"{row.contender}: {group}", row.median(lambda turn, group=group: turn.cpu_us.get(group, 0.0)), "µs")
            for row in rows for group in ("nginx", "worker", "redis")]))
    return sections
