"""One turn: runs wrk against one address, measures CPU and checks that every connection was served."""

import json
import os
import statistics
import subprocess
import time
from dataclasses import dataclass, field

import procs
from procs import BenchError, wait_until

WRK_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wrk")
START_LIMIT_S = 30  # wrk reads all requests before it connects


@dataclass
class Turn:
    """The results of one run of wrk. cpu_us: microseconds per request of each group of processes."""
    requests: int
    per_second: float
    p50_us: int
    p99_us: int
    max_us: int
    errors: dict
    cpu_us: dict = field(default_factory=dict)
    progress: dict = field(default_factory=dict)
    problems: list = field(default_factory=list)

    @property
    def cpu_total_us(self):
        return sum(self.cpu_us.values())

    def failed(self):
        return sum(self.errors.values())


def run(contender, connections, seconds, script_args=()):
    """Runs wrk for `seconds` with `connections` keep-alive connections, one thread, closed loop."""
    queued = contender.deployment.queued_writes()
    groups = contender.deployment.groups()
    before = {name: procs.cpu_us(pids) for name, pids in groups.items()}
    with start(contender, connections, seconds, script_args) as wrk:
        progress = _watch_connections(contender.deployment.address_of(contender), connections, seconds, wrk)
        turn = finish(wrk, seconds)
    for name, pids in groups.items():
        turn.cpu_us[name] = (procs.cpu_us(pids) - before[name]) / max(turn.requests, 1)
    turn.progress = dict(progress, opened=connections)
    if turn.failed():
        turn.problems.append(f"errors {turn.errors}")
    queued = contender.deployment.queued_writes() - queued
    if queued:
        turn.problems.append(f"{queued} reports were queued instead of counted")
    if not progress["watched"]:
        turn.problems.append("no connection stayed open long enough to be observed")
    if progress["stalled"]:
        turn.problems.append(f"{progress['stalled']} connections made no progress")
    return turn


def start(contender, connections, seconds, script_args=()):
    """Starts wrk without waiting for it."""
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{_whole_seconds(seconds)}s", "--timeout", "5s",
            "-s", os.path.join(WRK_DIR, contender.script), contender.url, "--", *map(str, script_args)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=dict(os.environ, BENCH_WRK_DIR=WRK_DIR))


def finish(wrk, seconds):
    """Waits for wrk and returns its results as a Turn."""
    try:
        output, _ = wrk.communicate(timeout=seconds + START_LIMIT_S)
    except subprocess.TimeoutExpired:
        wrk.kill()
        raise BenchError("wrk did not finish") from None
    for line in output.splitlines():
        if line.startswith("RESULT "):
            result = json.loads(line[len("RESULT "):])
            return Turn(result["requests"], result["requests"] * 1e6 / result["duration_us"], result["p50_us"],
                        result["p99_us"], result["max_us"], result["errors"])
    raise BenchError(f"wrk printed no result: {output[-400:]}")


def _whole_seconds(seconds):
    return max(1, round(seconds))


def _watch_connections(address, connections, seconds, wrk):
    """Compares the bytes received by each connection at two times of the run. A starved connection has received nothing
    between them.

    wrk's latencies do not show starvation: a request that is never answered is never measured.
    """
    wait_until(lambda: len(_received(address)) >= connections or wrk.poll() is not None, "wrk to connect", START_LIMIT_S)
    time.sleep(0.2 * _whole_seconds(seconds))
    first = _received(address)
    time.sleep(0.4 * _whole_seconds(seconds))
    second = _received(address)
    gains = [second[local] - first[local] for local in first if local in second]
    return {"watched": len(gains), "stalled": sum(1 for gain in gains if gain <= 0),
            "slowest_share": min(gains) / max(statistics.median(gains), 1) if gains else None}


def connections_to(address):
    """Number of open connections of this machine to (host, port)."""
    return len(_received(address))


def _received(address):
    """{local address: bytes received} for the established connections of this machine to (host, port)."""
    output = subprocess.run(["ss", "-tinHO", "state", "established", "dst", "{}:{}".format(*address)], check=True,
                            capture_output=True, text=True).stdout
    received = {}
    for line in output.splitlines():
        words = line.split()
        count = next((word for word in words if word.startswith("bytes_received:")), "bytes_received:0")
        received[words[2]] = int(count.partition(":")[2])
    return received
