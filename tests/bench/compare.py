"""This tree beside another revision of it, in turns, so that a change shows its own effect: scripts/bench compare REV."""

import os
import subprocess

import load
import ours
import turns
from benchmarks import Section, ask_once
from peers import ROOT, Contender
from procs import BenchError

# Only by the HTTP interface: keys may have other names there.
CONNECTIONS = 32
ROUTES = (("ping", "/ping", "get.lua", True), ("track", "/api/track", "track.lua", False), ("history", "/api/history", "history.lua", False),
          ("hot list", "/api/hot?model=engagement", "get.lua", True), ("cached hot list", "/api/hot?model=engagement", "get.lua", False))
READERS, TOPICS = "100000", "10000"  # of history.lua


def checkout(revision):
    """The sources of `revision`, in a folder of build/ that is kept for the next time."""
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--verify", "--short=12", revision + "^{commit}"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"no revision {revision}: {done.stderr.strip()}")
    commit = done.stdout.strip()
    folder = os.path.join(ROOT, "build", "compare", commit)
    if not os.path.exists(os.path.join(folder, "scripts", "run")):
        os.makedirs(folder, exist_ok=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", commit], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return commit, folder


def compare(session, revision):
    """Sections with two rows each: the ratio is this tree's figure divided by the other's."""
    commit, folder = checkout(revision)
    here, there = ours.Ours(session.directory, "freshet"), ours.Ours(session.directory, "freshet-" + commit, root=folder)
    session.running.update({"here": here, "there": there})
    sections = []
    for title, path, script, internal in ROUTES:
        contenders = [Contender("freshet, this tree", here, path, script, internal=internal),
                      Contender(commit, there, path, script, internal=internal)]
        arguments = {"track.lua": [session.workload().path], "history.lua": [READERS, TOPICS]}.get(script, [])
        if title.endswith("hot list"):
            for contender in contenders:
                load.run(Contender(contender.name, contender.deployment, "/api/track", "track.lua"), 8, 1, [session.workload().path])
        rows = session.turns(contenders, CONNECTIONS, script_args=arguments, before=ask_once if script == "get.lua" else turns.start_empty)
        sections.append(Section("compare-" + title.replace(" ", "-"), f"{title}, {CONNECTIONS} connections", rows))
        sections.append(Section("compare-cpu-" + title.replace(" ", "-"), f"{title}: µs of CPU a request", values=[
            (f"{row.contender}: {group}", row.median(lambda turn, of=group: turn.cpu_us.get(of, 0.0)), "µs")
            for row in rows for group in ("nginx", "worker", "redis")]))
    return sections
