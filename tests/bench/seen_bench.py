"""P5 and P8: CPU and memory of the seen filter, compared with daily sets and, if FRESHET_REDISBLOOM names the module,
RedisBloom.
"""

import os
import subprocess

from peers import ROOT
from procs import BenchError

CANDIDATES, RUN_LIMIT_S = (500, 20), 900
PROGRAM = os.path.join(ROOT, "build", "release", "tests", "bench", "seen_check")


def seen(session, section):
    """Checks of 500 candidates (a refresh) and of 20 (a page). seen_check itself takes turns; it uses Redis without
    nginx and workers.
    """
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
        note = "" if os.environ.get("FRESHET_REDISBLOOM") else " (without RedisBloom: FRESHET_REDISBLOOM is not set)"
        sections.append(section(f"seen-{candidates}", f"P5, P8 check of {candidates} items against eight days{note}", values=values))
    return sections
