"""Benchmarks Freshet against what a site could run instead. Called by scripts/bench, which installs the packages."""

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
from corpora import CORPORA, CorpusMissing
from peers import ROOT
from procs import BenchError
from redis import RedisError
from workload import REQUESTS

MAX_TURN_S = 60
MAX_ROUNDS = 21
MAX_TIMELINES = MAX_READERS = MAX_ITEMS = 10_000_000
MAX_INTERESTS = 500
SMOKE_REQUESTS = 1 << 15
FAILURES = (BenchError, AssertionError, RedisError)  # end a benchmark with a message


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.split(". ")[0] + ".")
    parser.add_argument("names", nargs="*", metavar="name", help="benchmarks: " + ", ".join(BENCHMARKS) + " (default: all); or compare REV [feed|reader-day]: this tree and a revision in turns")
    parser.add_argument("--seconds", type=int, default=3, help="length of a turn (default 3)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contender; medians are shown (default 3)")
    parser.add_argument("--timelines", type=int, default=1_000_000, help="timelines of waterfall's large store (default 1,000,000: 0.6 GB of memory)")
    parser.add_argument("--readers", type=int, default=1_000_000, help="readers of growth's large store (default 1,000,000: 1 GB of memory)")
    parser.add_argument("--interests", type=int, default=0, help="feed, reader-day: each reader has as many likes (default: none in feed, 10 in reader-day)")
    parser.add_argument("--items", type=int, default=20_000, help="items that these readers search (default 20,000)")
    parser.add_argument("--corpus", choices=CORPORA, default="zipf", help="texts of these items: generated, or those of Debian's packages (default zipf)")
    parser.add_argument("--smoke", action="store_true", help="run one short turn of ping and track, or of the named benchmarks, to test the harness")
    parser.add_argument("--peers-only", action="store_true", help="omit Freshet")
    options = parser.parse_args()
    options.revision = None
    if options.names[:1] == ["compare"]:
        if len(options.names) not in (2, 3) or options.names[2:] not in ([], ["feed"], ["reader-day"]):
            parser.error("compare needs exactly one revision, and optionally feed or reader-day")
        _, options.revision, *options.names = options.names
        return check_ranges(parser, options)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]}; known: {', '.join(BENCHMARKS)}")
    options = check_ranges(parser, options)
    if options.smoke:
        options.seconds, options.rounds = 1, 1
    options.names = options.names or (["ping", "track"] if options.smoke else list(BENCHMARKS))
    return options


def check_ranges(parser, options):
    if not 1 <= options.seconds <= MAX_TURN_S or not 1 <= options.rounds <= MAX_ROUNDS:
        parser.error(f"--seconds must be 1 to {MAX_TURN_S}, --rounds 1 to {MAX_ROUNDS}")
    if not 1 <= options.timelines <= MAX_TIMELINES:
        parser.error(f"--timelines must be 1 to {MAX_TIMELINES:,}")
    if not feed_bench.BASELINE_READERS <= options.readers <= MAX_READERS:
        parser.error(f"--readers must be {feed_bench.BASELINE_READERS:,} to {MAX_READERS:,}")
    if not 0 <= options.interests <= MAX_INTERESTS or not 1_000 <= options.items <= MAX_ITEMS:
        parser.error(f"--interests must be 0 to {MAX_INTERESTS}, --items 1,000 to {MAX_ITEMS:,}")
    return options


def make_session(options, directory):
    return Session(directory, options.seconds, options.rounds,
                   track_connections=(8,) if options.smoke else (8, 32, 128),
                   growth_articles=10_000 if options.smoke else 1_000_000, growth_timelines=options.timelines,
                   growth_readers=2_000 if options.smoke else options.readers,
                   requests=SMOKE_REQUESTS if options.smoke else REQUESTS, interests=options.interests,
                   items=options.items, corpus=options.corpus, min_slow_seconds=1 if options.smoke else 5, with_freshet=not options.peers_only)


def measure(options, directory):
    sections, session = [], make_session(options, directory)
    benchmarks = {name: BENCHMARKS[name] for name in options.names}
    if options.revision:
        benchmarks = {"compare": lambda session: compare(session, options.revision, options.names)}
    try:
        for name, benchmark in benchmarks.items():
            print(f"… {name}", file=sys.stderr, flush=True)
            try:
                sections += benchmark(session)
            except CorpusMissing as error:
                print(f"SKIPPED: {name} with --corpus {options.corpus}: {error}", file=sys.stderr)
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
    problems = report.problems(sections)
    print("".join(f"\n⚠ {problem}" for problem in problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
