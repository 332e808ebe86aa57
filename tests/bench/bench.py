"""Measures freshet against what a site would run instead. Called by scripts/bench, which has installed what it needs."""

import argparse
import os
import shutil
import signal
import sys
import tempfile

import feed_bench
import report
from benchmarks import BENCHMARKS, Section, Session
from compare import compare
from peers import ROOT
from procs import BenchError
from redis import RedisError
from workload import REQUESTS

LONGEST_TURN_S = 60
MOST_ROUNDS = 21
MOST_TIMELINES = MOST_READERS = 10_000_000
SMOKE_REQUESTS = 1 << 15
FAILURES = (BenchError, AssertionError, RedisError)  # what ends a benchmark with a message


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.split(". ")[0] + ".")
    parser.add_argument("names", nargs="*", metavar="name", help="of: " + ", ".join(BENCHMARKS) + " (default: all); or compare REV: this tree beside a revision, in turns")
    parser.add_argument("--seconds", type=int, default=3, help="of one turn (default 3)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contender; medians are shown (default 3)")
    parser.add_argument("--timelines", type=int, default=1_000_000, help="of waterfall's many (default 1,000,000: 0.6 GB of memory)")
    parser.add_argument("--readers", type=int, default=1_000_000, help="of growth's many (default 1,000,000: 1 GB of memory)")
    parser.add_argument("--smoke", action="store_true", help="one short turn of ping and track: does the harness work?")
    parser.add_argument("--peers-only", action="store_true", help="leave freshet out")
    options = parser.parse_args()
    options.revision = None
    if options.names[:1] == ["compare"]:
        if len(options.names) != 2:
            parser.error("compare takes one revision")
        options.revision, options.names = options.names[1], []
        return bounded(parser, options)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    options = bounded(parser, options)
    if options.smoke:
        options.seconds, options.rounds = 1, 1
    options.names = options.names or (["ping", "track"] if options.smoke else list(BENCHMARKS))
    return options


def bounded(parser, options):
    if not 1 <= options.seconds <= LONGEST_TURN_S or not 1 <= options.rounds <= MOST_ROUNDS:
        parser.error(f"--seconds is 1 to {LONGEST_TURN_S}, --rounds 1 to {MOST_ROUNDS}")
    if not 1 <= options.timelines <= MOST_TIMELINES:
        parser.error(f"--timelines is 1 to {MOST_TIMELINES:,}")
    if not feed_bench.FEW <= options.readers <= MOST_READERS:
        parser.error(f"--readers is {feed_bench.FEW:,} to {MOST_READERS:,}")
    return options


def session_of(options, directory):
    return Session(directory, options.seconds, options.rounds,
                   track_connections=(8,) if options.smoke else (8, 32, 128),
                   growth_articles=10_000 if options.smoke else 1_000_000, growth_timelines=options.timelines,
                   growth_readers=2_000 if options.smoke else options.readers,
                   requests=SMOKE_REQUESTS if options.smoke else REQUESTS, with_ours=not options.peers_only)


def measure(options, directory):
    sections, session = [], session_of(options, directory)
    try:
        if options.revision:
            sections += compare(session, options.revision)
        for name in options.names:
            print(f"… {name}", file=sys.stderr, flush=True)
            try:
                sections += BENCHMARKS[name](session)
            except FAILURES as error:
                sections.append(Section(name, name, problems=[str(error)]))
    finally:
        session.stop()
    return sections


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    about = dict(report.host(), seconds=options.seconds, rounds=options.rounds)
    directory = tempfile.mkdtemp(prefix="freshet-bench-")
    os.chmod(directory, 0o755)
    try:
        sections = measure(options, directory)
    except FAILURES as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    paths = report.write(os.path.join(ROOT, "build", "bench"), sections, about)
    print(f"{about['processor']}, {about['cores']} cores, {options.rounds} turns of {options.seconds} s\n")
    print("\n\n".join(filter(None, [report.table(sections), "\n".join(report.verdicts(sections)), "\n".join(paths)])))
    void = report.problems(sections)
    print("".join(f"\n⚠ {problem}" for problem in void), file=sys.stderr)
    return 1 if void else 0


if __name__ == "__main__":
    sys.exit(main())
