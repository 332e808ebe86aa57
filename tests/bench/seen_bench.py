"""P5 and P8: what it takes to know what a reader has seen, against daily sets and, with FRESHET_REDISBLOOM, the module."""

import os
import subprocess

from peers import ROOT
from procs import BenchError

CANDIDATES, RUN_LIMIT_S = (500, 20), 900
PROGRAM = os.path.join(ROOT, "build", "release", "tests", "bench", "seen_check")


def seen(session, section):
    """A refresh's 500 candidates and a page of 20; the program takes turns itself, Redis without nginx or workers."""
    built = subprocess.run(["cmake", "--build", os.path.join(ROOT, "build", "release"), "--target", "seen_check"],
                           capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
    if built.returncode != 0:
        raise BenchError("cannot build seen_check: " + built.stdout[-500:])
    sections = []
    for candidates in CANDIDATES:
        done = subprocess.run([PROGRAM, str(candidates), str(2 * session.rounds + 1), str(1000 * session.seconds * 20 // candidates)],
                              capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
        if done.returncode != 0:
            raise BenchError(done.stderr.strip() or "seen_check failed")
        values = [(label, float(value), unit) for label, value, unit in (line.split("\t") for line in done.stdout.splitlines())]
        note = "" if os.environ.get("FRESHET_REDISBLOOM") else " (RedisBloom left out: FRESHET_REDISBLOOM names no module)"
        sections.append(section(f"seen-{candidates}", f"P5, P8 are {candidates} items seen, on eight days?{note}", values=values))
    return sections
