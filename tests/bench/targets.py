"""Targets. A ratio is Freshet's value divided by the named contender's, measured in the same run."""

from dataclasses import dataclass

ORIGINAL_PHP, ORIGINAL_LUA = "PHP-FPM, original script", "nginx-lua, original script"
COUNTING = "Freshet track, counting only: Redis' CPU ÷ that of nginx-lua, our earlier script"


@dataclass(frozen=True)
class Target:
    """The limit of a figure in a section: of the ratio to `contender` (`figure` is a name of turns.FIGURES) or, if
    `figure` is empty, of the single value with the label `contender`.
    """
    name: str
    section: str
    contender: str
    figure: str
    at_least: bool
    limit: float

    def measured(self, sections):
        """The figure, or None if this run has not measured it."""
        section = next((section for section in sections if section.key == self.section), None)
        if section is None:
            return None
        if not self.figure:
            return section.value(self.contender)
        row = section.row(self.contender)
        return row.ratio.get(self.figure) if row and section.rows[0].contender.startswith("Freshet") else None

    def is_met(self, value):
        return value >= self.limit if self.at_least else value <= self.limit

    def describe(self):
        label = {"per_second": "req/s ÷ that of", "cpu_us": "CPU ÷ that of", "p99_us": "p99 ÷ that of", "": ""}[self.figure]
        return f"{self.name} {label} {self.contender}".replace("  ", " ")


def at_least(name, section, contender, figure, limit):
    return Target(name, section, contender, figure, True, limit)


def at_most(name, section, contender, figure, limit):
    return Target(name, section, contender, figure, False, limit)


TARGETS = [
    at_most("P1 ping:", "ping", "libfcgi echo", "cpu_us", 0.5),
    at_most("P1 ping:", "ping", "PHP-FPM hello", "cpu_us", 0.4),
    at_most("P2 track at 32:", "track-32", ORIGINAL_PHP, "cpu_us", 0.38),
    at_most("P2 track at 32:", "track-32", ORIGINAL_LUA, "cpu_us", 1.15),
    at_most("P2 track at 128:", "track-128", ORIGINAL_LUA, "cpu_us", 0.85),
    at_least("P2 track at 128:", "track-128", ORIGINAL_LUA, "per_second", 1.2),
    at_most("P2b", "track-32", COUNTING, "", 0.55),
    at_most("P2c", "track-32", "Freshet track, counting only: worker's CPU ÷ that of its ping", "", 1.8),
    at_least("P3 hot, cache hit:", "hot-hit", "nginx return 200", "per_second", 0.7),
    at_most("P3 hot, from the worker:", "hot-miss", "Freshet ping", "cpu_us", 1.2),
    at_most("P8", "memory", "Freshet: largest worker", "", 6.0),
    at_most("P9 track, a million articles:", "growth", "Freshet track, 1,000 articles", "cpu_us", 1.35),
    at_most("P5 seen:", "seen-500", "Freshet's time ÷ that of RedisBloom, BF.MEXISTS", "", 0.15),
    at_most("P8 seen:", "seen-500", "Freshet: Redis memory per impression", "", 2.0),
    at_most("P4 load_more:", "feed-more", "PHP-FPM load_more", "cpu_us", 0.36),
    at_most("P5 refresh at 2:", "feed-refresh-2", "PHP-FPM refresh", "cpu_us", 0.60),
    at_most("P6 at 2:", "recommend-2", "PHP-FPM recommendations", "cpu_us", 1.0),
    *(at_most(f"P7 page of {items}, {direction}:", f"waterfall-{direction}-{items}", "PHP-FPM", "cpu_us", limit)
      for items, limit in ((5, 0.38), (20, 0.45)) for direction in ("first", "up", "down")),
    at_most("P7", "waterfall-first-5", "Freshet: Redis round trips per page", "", 1.05),
    at_most("P7b push to 10,000:", "waterfall-push-10000", "PHP-FPM", "cpu_us", 1.0),
    at_most("P9 refresh, a million readers:", "feed-growth", "Freshet refresh, 1,000 readers", "cpu_us", 1.2),
    at_most("P9 page, a million timelines:", "waterfall-growth", "Freshet page, 1,000 timelines", "cpu_us", 1.25),
    at_most("P9 push, a million timelines:", "waterfall-push-growth", "Freshet push, 1,000 timelines", "cpu_us", 1.25),
    at_most("P11 reader-day:", "reader-day", "PHP-FPM reader-day", "cpu_us", 0.25),
    at_most("P10", "start", "Freshet: start to READY", "", 200.0),
    at_most("P10", "start", "Freshet: failed requests in 20 reloads", "", 0.0),
]
