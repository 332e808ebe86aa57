"""Contenders take turns (A B C A B C …). Results are medians, and medians of the ratios between turns of the same
round.
"""

import statistics
from dataclasses import dataclass, field

import load
import redis_server
from procs import wait_until

SETTLE_LIMIT_S = 2.0


@dataclass
class Row:
    """The turns of a contender with one number of connections. ratio: the first contender's figure divided by this
    one's.
    """
    contender: str
    connections: int
    turns: list
    ratio: dict = field(default_factory=dict)

    def median(self, figure):
        return statistics.median(figure(turn) for turn in self.turns)

    def problems(self):
        return [problem for turn in self.turns for problem in turn.problems]


FIGURES = {
    "per_second": lambda turn: turn.per_second,
    "p50_us": lambda turn: turn.p50_us,
    "p99_us": lambda turn: turn.p99_us,
    "max_us": lambda turn: turn.max_us,
    "cpu_us": lambda turn: turn.cpu_total_us,
}


def take_turns(contenders, connections, seconds, rounds, script_args=(), before=None, after=None):
    """Returns a Row per contender. If the first one is Freshet, the others have ratios to it.

    before(contender) runs before each turn. after(contender, turn) runs after it and may append to turn.problems.
    script_args: arguments of the wrk script, or a function of the contender that returns them.
    """
    rows = [Row(contender.name, connections, []) for contender in contenders]
    for _ in range(rounds):
        for contender, row in zip(contenders, rows):
            if before:
                before(contender)
            turn = load.run(contender, connections, seconds, script_args(contender) if callable(script_args) else script_args)
            if after:
                after(contender, turn)
            row.turns.append(turn)
    for row in rows[1:] if contenders[0].name.startswith("Freshet") else []:
        for name, figure in FIGURES.items():
            pairs = [(figure(first), figure(other)) for first, other in zip(rows[0].turns, row.turns)]
            row.ratio[name] = statistics.median(first / other if other else 0.0 for first, other in pairs)
    return rows


def start_empty(contender):
    """For take_turns: empties the store before a turn."""
    redis_server.flush(contender.deployment.redis_client())


def check_counters(workload):
    """For take_turns: checks that the counters match the number of reports sent.

    The original script counts every report; Freshet counts one view per reader, article and session window. At the end
    wrk leaves up to one request per connection unanswered, which may or may not have been counted.
    """
    def check(contender, turn):
        client = contender.deployment.redis_client()
        count = (lambda sent: sent) if contender.counts_all else workload.visits
        lowest, highest = count(turn.requests), count(turn.requests + turn.progress["opened"])
        try:
            wait_until(lambda: lowest <= redis_server.total_views(client) <= highest, "the counters", SETTLE_LIMIT_S)
        except AssertionError:
            counted = redis_server.total_views(client)
            turn.problems.append(f"counted {counted} views instead of {lowest} to {highest}")
    return check
