"""Contenders take turns (A B C A B C …); what comes out are medians, and ratios of turns that ran side by side."""

import statistics
from dataclasses import dataclass, field

import load
import redis_server
from procs import wait_until

SETTLE_LIMIT_S = 2.0


@dataclass
class Row:
    """One contender at one number of connections. ratio: the first contender's figure divided by this one's."""
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
    """One Row per contender; when the first is freshet, the others are compared with it.

    `before(contender)` runs ahead of each turn, `after(contender, turn)` may append to turn.problems; `script_args`
    are the wrk script's, or a function of the contender that gives them.
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
    for row in rows[1:] if contenders[0].name.startswith("freshet") else []:
        for name, figure in FIGURES.items():
            pairs = [(figure(ours), figure(theirs)) for ours, theirs in zip(rows[0].turns, row.turns)]
            row.ratio[name] = statistics.median(ours / theirs if theirs else 0.0 for ours, theirs in pairs)
    return rows


def start_empty(contender):
    """For take_turns: the store holds nothing when the turn begins."""
    redis_server.empty(contender.deployment.redis_client())


def check_counters(workload):
    """For take_turns: the store's counters must have grown by what was sent, no more and no less.

    The seed's script counts every report; ours counts one view per reader and article in a session's window. wrk
    leaves up to one request per connection unanswered at its end, which may or may not have been counted.
    """
    def check(contender, turn):
        client = contender.deployment.redis_client()
        count = (lambda sent: sent) if contender.counts_all else workload.visits
        least, most = count(turn.requests), count(turn.requests + turn.progress["opened"])
        try:
            wait_until(lambda: least <= redis_server.sum_of_views(client) <= most, "counters", SETTLE_LIMIT_S)
        except AssertionError:
            counted = redis_server.sum_of_views(client)
            turn.problems.append(f"counted {counted} views, sent between {least} and {most}")
    return check
