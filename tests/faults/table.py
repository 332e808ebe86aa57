"""The table of figures, aligned, for a terminal or a document."""

import os
import shutil
import textwrap

HEAD = ("fault", "what was done", "figures", "target", "verdict")


def cores():
    return len(os.sched_getaffinity(0))


def rows(outcomes):
    return [(each.fault.name, each.fault.done, "; ".join(figure.text for figure in each.figures), each.fault.target,
             each.verdict()) for each in outcomes]


def render(outcomes, width=None):
    """Text for a terminal; the three long columns are wrapped."""
    width = width or max(100, shutil.get_terminal_size((150, 40)).columns)
    room = width - 5 - 8 - 4 * 2
    widths = (5, room * 26 // 100, room * 50 // 100, room * 24 // 100, 8)
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
