"""Runs faults and prints the table. Exits 1 if a guarantee about data or readers was violated; missed performance
targets are only shown.
"""

import argparse
import os
import random
import sys
import time

from faults import abuse, clients, clocks, disk, expensive_queries, hostile, hosts, lifecycle, networks, redis_faults, soak, workers  # noqa: F401 (each registers its faults)
from faults.scenario import FAULTS, run_fault
from faults.table import cores, markdown, render


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/faults", description="Injects faults into a service under a verified load and reports the effects.")
    parser.add_argument("--short", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", metavar="F1,R7", help="run only these faults")
    parser.add_argument("--seed", default=os.environ.get("FRESHET_FAULT_SEED"), help="seed of all random choices (default: FRESHET_FAULT_SEED, or random)")
    parser.add_argument("--soak", metavar="MINUTES", type=float, help="run load and random faults for this long instead")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    given = parser.parse_args()
    given.seed = given.seed or str(random.SystemRandom().randrange(10**6))
    return given


def selected_faults(given):
    if given.soak:
        return [soak.for_minutes(given.soak)]
    names = sorted(FAULTS, key=lambda name: (name[0], int(name[1:])))
    if given.only:
        names = given.only.split(",")
        if unknown := [name for name in names if name not in FAULTS]:
            sys.exit(f"faults: unknown: {', '.join(unknown)}; known: {', '.join(FAULTS)}")
    return [FAULTS[name] for name in names]


def main():
    given = arguments()
    print(f"seed {given.seed}, {cores()} cores", flush=True)
    outcomes = []
    for fault in selected_faults(given):
        print(f"{fault.name}: {fault.description} …", file=sys.stderr, flush=True)
        outcomes.append(run_fault(fault, given.seed, given.short))
        print(f"{fault.name}: {outcomes[-1].verdict()} after {outcomes[-1].seconds:.0f} s", file=sys.stderr, flush=True)
    print((markdown if given.markdown else render)(outcomes))
    verdicts = [each.verdict() for each in outcomes]
    print(f"\n{len(outcomes)} faults: {verdicts.count('met')} met, {verdicts.count('missed')} missed a target, "
          f"{verdicts.count('VIOLATED')} violated a guarantee; {time.strftime('%Y-%m-%d')}, {cores()} cores, "
          f"load average {os.getloadavg()[0]:.1f}, seed {given.seed}")
    return 1 if "VIOLATED" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
