"""What a fault is: harm done to a running service, figures of what that cost, and the invariants afterwards."""

import contextlib
import dataclasses
import random
import sys
import time
import traceback

from service import PATIENT, Instance

from faults import identities
from faults.invariants import broken_invariants
from faults.load import Load

# Readers of the load ask more than a person would, from one address.
NO_LIMITS = {f"limits__{name}_rate": "0" for name in ("track", "views", "history", "feedback", "feed", "recommendations", "waterfall")}


@dataclasses.dataclass
class Figure:
    """safety: a promise about data or readers; missing it is a failure. Else it is a target of time, which a slow machine may miss."""
    text: str
    met: bool = True
    safety: bool = False


@dataclasses.dataclass
class Fault:
    name: str
    done: str      # what is done
    target: str
    function: object


FAULTS = {}


def fault(name, done, target):
    def register(function):
        FAULTS[name] = Fault(name, done, target, function)
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
    """What a scenario gets: the dice, the scale, and instances that end with it."""

    def __init__(self, seed, short, name):
        self.seed, self.short, self.name = seed, short, name
        self.dice = random.Random(f"{seed} {name}")
        self.figures = []
        self._numbers = 0

    def scale(self, short, long):
        return short if self.short else long

    def figure(self, text, met=True, safety=False):
        self.figures.append(Figure(text, met, safety))

    def at_most(self, what, value, limit, unit="ms"):
        """A target of time."""
        self.figure(f"{what} {value:.3g} {unit}" + ("" if value <= limit else f" (target {limit:g})"), value <= limit)

    def none(self, what, count, examples=()):
        """A promise: there is none of it."""
        self.figure(f"{count} {what}", count == 0, safety=True)
        for text in list(examples)[:3] if count else ():
            print(f"  {self.name}: {text}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def instance(self, *options, patient=False, check=True, limits=False, **directives):
        """An instance, without limits by address or visitor unless said otherwise. patient: with a Redis deadline that a busy machine keeps.
        Ends with the invariants, if it is to be checked."""
        free = () if limits else ("--no-limits",)
        service = Instance(*free, *options, **(({} if limits else NO_LIMITS) | (PATIENT if patient else {}) | directives))
        if not self.short:
            service.nginx_edit = ""  # as shipped
        try:
            service.start()
            yield service
            if check:
                broken = broken_invariants(service)
                self.figure("invariants hold" if not broken else "invariants broken", not broken, safety=True)
                for text in broken:
                    print(f"  {self.name}: {text}", file=sys.stderr, flush=True)
        finally:
            service.stop()

    def readers(self, service, count=24):
        self._numbers += 1
        stamp = f"{self.name.lower()}{self._numbers}x{self.dice.randrange(10**6)}"
        return identities.prepare(service, [identities.Reader(stamp, number) for number in range(count)])

    def load(self, service, readers, **options):
        return Load(service, readers, self.dice.randrange(2**32), **options)

    def judge(self, load):
        """R1 of a load that has ended."""
        self.figure(f"{load.requests:,} requests", safety=False)
        self.none("mix-ups", load.mixed_up, load.mixups)

    def balance(self, service, load, may_lose=None):
        """R5 of a load that has ended. may_lose(balance): whether what is lost was allowed to be."""
        balance = load.accountant.settled(service)
        kept = balance.double == 0 and (balance.lost == 0 or (may_lose is not None and may_lose(balance)))
        self.figure(str(balance), kept, safety=True)
        for text in ([] if kept else balance.details[:5]):
            print(f"  {self.name}: {text}", file=sys.stderr, flush=True)
        return balance


def percentile(values, share):
    """Of sorted values, in the unit they have; 0 of none."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def carry_out(one, seed, short):
    """Runs a fault; whatever it raises is a violation that says so."""
    run, began = Run(seed, short, one.name), time.monotonic()
    try:
        one.function(run)
    except Exception as error:  # the other faults are to be run all the same
        traceback.print_exc()
        run.figure(f"not carried out: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}", False, safety=True)
    return Outcome(one, run.figures, time.monotonic() - began)
