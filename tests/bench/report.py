"""Reports of a run: a Markdown table, JSON, and an SVG chart."""

import dataclasses
import json
import os
import platform
import time

import chart
from targets import TARGETS

GROUPS = ("nginx", "worker", "redis")
HEAD = ("", "req/s", "p50 ms", "p99 ms", "max ms", "CPU µs/request (nginx + worker + Redis)", "req/s ratio", "CPU ratio", "slowest connection")


def table(sections):
    """All sections as one Markdown table, and lists of single values. Ratios are the first row's value divided by the
    row's.
    """
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    for section in sections:
        if section.rows:
            lines.append(f"| **{section.title}** |" + " |" * (len(HEAD) - 1))
            lines.extend("| " + " | ".join(_cells(row)) + " |" for row in section.rows)
    for section in sections:
        if section.values:
            lines += ["", f"{section.title}:"]
            lines += [f"- {label}: {_number(value)} {unit}" for label, value, unit in section.values]
    return "\n".join(lines)


def _cells(row):
    cpu = {group: row.median(lambda turn, group=group: turn.cpu_us.get(group, 0.0)) for group in GROUPS}
    parts = " + ".join(f"{value:.1f}" for value in cpu.values())
    ratio = [f"{row.ratio[name]:.2f}" if row.ratio else "" for name in ("per_second", "cpu_us")]
    shares = [turn.progress["slowest_share"] for turn in row.turns if turn.progress["slowest_share"] is not None]
    return [row.contender + (" ⚠" if row.problems() else ""), f"{row.median(lambda turn: turn.per_second):,.0f}",
            *(f"{row.median(lambda turn, name=name: getattr(turn, name)) / 1e3:.2f}" for name in ("p50_us", "p99_us", "max_us")),
            f"{row.median(lambda turn: turn.cpu_total_us):.1f} ({parts})", *ratio, f"{min(shares):.2f} × median" if shares else "not observed"]


def _number(value):
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def verdicts(sections):
    """A line for each target that this run has measured."""
    lines = []
    for target in TARGETS:
        value = target.measured(sections)
        if value is not None:
            sign = "≥" if target.at_least else "≤"
            verdict = "met   " if target.is_met(value) else "MISSED"
            lines.append(f"{verdict}  {target.describe()}: {value:.2f} (target {sign} {target.limit:g})")
    return lines


def problems(sections):
    """Problems that invalidate results of this run: errors, miscounted views, starved connections."""
    found = [f"{section.title}, {row.contender}: {problem}"
             for section in sections for row in section.rows for problem in row.problems()]
    return found + [f"{section.title}: {problem}" for section in sections for problem in section.problems]


def host():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), platform.machine())
    return {"processor": model, "cores": os.cpu_count(), "kernel": platform.release(),
            "load_before": os.getloadavg()[0], "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def write(directory, sections, about):
    """Writes results.json, results.md and chart.svg; returns their paths."""
    os.makedirs(directory, exist_ok=True)
    report = {"about": about, "sections": [dataclasses.asdict(section) for section in sections],
              "targets": verdicts(sections), "problems": problems(sections)}
    contents = {"results.json": json.dumps(report, indent=1, ensure_ascii=False),
                "results.md": table(sections) + "\n\n" + "\n".join(verdicts(sections)) + "\n",
                "chart.svg": chart.draw(sections)}
    paths = []
    for name, content in contents.items():
        paths.append(os.path.join(directory, name))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write(content)
    return paths
