"""Runs faults and prints the table. Exit status 1 when a promise about data or readers was broken; a missed target of time is only shown."""

import argparse
import os
import random
import sys
import time

from faults import attacks, clients, disk, hostile, hosts, lifecycle, redis_unavailable, soak, strangers, workers  # noqa: F401 (each registers its faults)
from faults.scenario import FAULTS, carry_out
from faults.table import cores, markdown, render


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/faults", description="The fault matrix: each fault under a verified load, and what it cost.")
    parser.add_argument("--short", action="store_true", help="fewer and shorter turns")
    parser.add_argument("--only", metavar="F1,R7", help="these faults only")
    parser.add_argument("--seed", default=os.environ.get("FRESHET_FAULT_SEED"), help="of every random choice (FRESHET_FAULT_SEED)")
    parser.add_argument("--soak", metavar="MINUTES", type=float, help="instead of the matrix: load and random faults for so long")
    parser.add_argument("--markdown", action="store_true", help="the table for a document")
    given = parser.parse_args()
    given.seed = given.seed or str(random.SystemRandom().randrange(10**6))
    return given


def chosen(given):
    if given.soak:
        return [soak.for_minutes(given.soak)]
    names = sorted(FAULTS, key=lambda name: (name[0], int(name[1:])))
    if given.only:
        names = given.only.split(",")
        if unknown := [name for name in names if name not in FAULTS]:
            sys.exit(f"faults: no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    return [FAULTS[name] for name in names]


def main():
    given = arguments()
    print(f"seed {given.seed}, {cores()} cores", flush=True)
    outcomes = []
    for one in chosen(given):
        print(f"{one.name}: {one.done} …", file=sys.stderr, flush=True)
        outcomes.append(carry_out(one, given.seed, given.short))
        print(f"{one.name}: {outcomes[-1].verdict()} after {outcomes[-1].seconds:.0f} s", file=sys.stderr, flush=True)
    print((markdown if given.markdown else render)(outcomes))
    verdicts = [each.verdict() for each in outcomes]
    print(f"\n{len(outcomes)} faults: {verdicts.count('met')} met, {verdicts.count('missed')} missed a target, "
          f"{verdicts.count('VIOLATED')} violated a promise; {time.strftime('%Y-%m-%d')}, {cores()} cores, "
          f"load average {os.getloadavg()[0]:.1f}, seed {given.seed}")
    return 1 if "VIOLATED" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
