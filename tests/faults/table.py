"""The table of results, as aligned text or as Markdown."""

import os
import shutil
import textwrap

HEAD = ("", "fault", "result", "target", "verdict")  # as in PERFORMANCE.md, which omits the last column


def cores():
    return len(os.sched_getaffinity(0))


def rows(outcomes):
    return [(each.fault.name, each.fault.description, "; ".join(figure.text for figure in each.figures), each.fault.target,
             each.verdict()) for each in outcomes]


def render(outcomes, width=None):
    """Text for a terminal. The three long columns are wrapped."""
    width = width or max(100, shutil.get_terminal_size((150, 40)).columns)
    available = width - 5 - 8 - 4 * 2
    widths = (5, available * 26 // 100, available * 50 // 100, available * 24 // 100, 8)
    lines = [_line(HEAD, widths), _line(tuple("-" * each for each in widths), widths)]
    for row in rows(outcomes):
        cells = [textwrap.wrap(text, each) or [""] for text, each in zip(row, widths)]
        for at in range(max(map(len, cells))):
            lines.append(_line([cell[at] if at < len(cell) else "" for cell in cells], widths))
    return "\n".join(lines)


def markdown(outcomes):
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows(outcomes)]
    return "\n".join(lines)


def _line(cells, widths):
    return "  ".join(cell.ljust(each) for cell, each in zip(cells, widths)).rstrip()
