"""Faults: how they are registered, run and reported."""

import contextlib
import dataclasses
import os
import random
import shutil
import sys
import tempfile
import time
import traceback

from service import LONG_TIMEOUTS, Instance

from faults import identities
from faults.invariants import broken_invariants
from faults.load import Load

# The load's readers send more requests than people do, from one address.
NO_LIMITS = {f"limits__{name}_rate": "0" for name in ("track", "views", "history", "feedback", "feed", "recommendations", "waterfall")}
SHORT_THINK_S = 0.04  # between two requests of a connection
# Scenarios count every report of a few addresses; tests/e2e/test_abuse.py tests this quota.
NO_PAGE_VIEW_QUOTA = {"limits__pv_per_network": "0"}


@dataclasses.dataclass
class Figure:
    """One result of a fault. safety: a guarantee about data or readers, whose violation is a failure. Others are
    performance targets, which a slow machine may miss.
    """
    text: str
    met: bool = True
    safety: bool = False


@dataclasses.dataclass
class Fault:
    name: str
    description: str
    target: str
    function: object  # is called with a Run


FAULTS = {}


def fault(name, description, target):
    def register(function):
        FAULTS[name] = Fault(name, description, target, function)
        return function
    return register


@dataclasses.dataclass
class Outcome:
    fault: Fault
    figures: list
    seconds: float

    def verdict(self):
        if any(not each.met and each.safety for each in self.figures):
            return "VIOLATED"
        return "met" if all(each.met for each in self.figures) else "missed"


class Run:
    """One run of a fault: random choices, scale, instances of the service, and the results so far."""

    def __init__(self, seed, short, name):
        self.seed, self.short, self.name = seed, short, name
        self.rng = random.Random(f"{seed} {name}")
        self.figures = []
        self._numbers = 0

    def scale(self, short, long):
        """The value for the short or the long form."""
        return short if self.short else long

    def report(self, text, met=True, safety=False):
        self.figures.append(Figure(text, met, safety))

    def expect_at_most(self, what, value, limit, unit="ms", safety=False):
        """Reports a value with a performance target, or with a guarantee (safety)."""
        self.report(f"{what} {value:.3g} {unit}" + ("" if value <= limit else f" (target {limit:g})"), value <= limit, safety)

    def expect_none(self, what, count, examples=()):
        """Reports a count that a guarantee requires to be 0; prints some examples if it is not."""
        self.report(f"{count} {what}", count == 0, safety=True)
        for text in list(examples)[:3] if count else ():
            print(f"  {self.name}: {text}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def instance(self, *options, long_timeouts=False, limits=False, environment=None, nginx_edit="", **directives):
        """Runs an instance and checks the invariants at the end.

        long_timeouts: timeouts that a busy machine does not exceed. limits: with rate limits. environment: added to
        that of its processes. nginx_edit: a sed expression for nginx's files.
        """
        no_limits = () if limits else ("--no-limits",)
        service = Instance(*no_limits, *options, **(NO_PAGE_VIEW_QUOTA | ({} if limits else NO_LIMITS) | (LONG_TIMEOUTS if long_timeouts else {}) | directives))
        service.environment = environment or {}
        # As shipped, but in the short form idle connections close soon.
        service.nginx_edit = "\n".join(filter(None, (service.nginx_edit if self.short else "", nginx_edit)))
        try:
            service.start()
            yield service
            broken = broken_invariants(service)
            self.report("invariants hold" if not broken else "invariants broken", not broken, safety=True)
            for text in broken:
                print(f"  {self.name}: {text}", file=sys.stderr, flush=True)
        finally:
            service.stop()

    def readers(self, service, count=24):
        self._numbers += 1
        stamp = f"{self.name.lower()}{self._numbers}x{self.rng.randrange(10**6)}"
        return identities.prepare(service, [identities.Reader(stamp, number) for number in range(count)])

    def load(self, service, readers, **options):
        """think_s: of the long form, as fast as possible by default. The short form shares the machine with other
        tests: it pauses unless think_s is 0.
        """
        if self.short:
            options["think_s"] = options["think_s"] and max(SHORT_THINK_S, options["think_s"]) if "think_s" in options else SHORT_THINK_S
        return Load(service, readers, self.rng.randrange(2**32), **options)

    def check_replies(self, load):
        """R1: reports mix-ups of a load that has stopped."""
        self.report(f"{load.requests:,} requests", safety=False)
        self.expect_none("mixed up", load.mixed_up, load.mixups)

    def check_events(self, service, load, may_lose=None):
        """R5: reports whether each event of a load that has stopped was counted once. may_lose(balance): whether its
        losses are allowed.
        """
        balance = load.ledger.settled_balance(service)
        is_kept = balance.duplicated == 0 and (balance.lost == 0 or (may_lose is not None and may_lose(balance)))
        self.report(str(balance), is_kept, safety=True)
        for text in ([] if is_kept else balance.details[:5]):
            print(f"  {self.name}: {text}", file=sys.stderr, flush=True)
        return balance


@contextlib.contextmanager
def readable_folder():
    """A temporary folder that the service's user may read."""
    path = tempfile.mkdtemp(prefix=f"freshet-faults-{os.getpid()}-", dir="/tmp")
    os.chmod(path, 0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def percentile(values, share):
    """A percentile (share: 0..1) of sorted values; 0 if there are none."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def run_fault(injected, seed, short):
    """Runs a fault. An exception counts as a violation."""
    run, began = Run(seed, short, injected.name), time.monotonic()
    try:
        injected.function(run)
    except Exception as error:  # the remaining faults must still run
        traceback.print_exc()
        run.report(f"failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}", False, safety=True)
    return Outcome(injected, run.figures, time.monotonic() - began)
