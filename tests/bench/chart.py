"""A bar chart of requests per second and CPU per request, for each section and contender."""

from html import escape

ROW, GAP, LABEL, PANEL, MARGIN = 20, 34, 230, 300, 16
COLOURS = {"nginx": "#4c8f6b", "worker": "#2f5d8a", "redis": "#b5523b"}
FIRST_ROW, OTHER_ROWS = "#2f5d8a", "#a9b4be"


def draw(sections):
    """An SVG document. Sections without turns are omitted."""
    drawn = [section for section in sections if section.rows]
    height = MARGIN * 2 + 20 + sum(GAP + ROW * len(section.rows) for section in drawn)
    width = LABEL + 2 * (PANEL + 90) + MARGIN
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
             'font-family="sans-serif" font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
    parts += _legend()
    top = MARGIN + 20
    for section in drawn:
        parts += _section(section, top)
        top += GAP + ROW * len(section.rows)
    return "\n".join(parts + ["</svg>"]) + "\n"


def _legend():
    left, parts = LABEL + PANEL + 90, [_text(LABEL, MARGIN + 8, "requests per second")]
    parts.append(_text(left, MARGIN + 8, "CPU µs per request:"))
    left += 125
    for name, colour in COLOURS.items():
        parts += [_bar(left, MARGIN - 2, 10, colour, 10), _text(left + 14, MARGIN + 8, name)]
        left += 70
    return parts


def _section(section, top):
    parts = [_text(MARGIN, top + 22, section.title, "bold")]
    speeds = [row.median(lambda turn: turn.per_second) for row in section.rows]
    costs = [{name: row.median(lambda turn, name=name: turn.cpu_us.get(name, 0.0)) for name in COLOURS} for row in section.rows]
    max_speed, max_cost = max(speeds) or 1, max(sum(cost.values()) for cost in costs) or 1
    for index, (row, speed, cost) in enumerate(zip(section.rows, speeds, costs)):
        y = top + GAP - 4 + ROW * index
        parts.append(_text(MARGIN, y + 11, row.contender))
        parts.append(_bar(LABEL, y, PANEL * speed / max_speed, FIRST_ROW if index == 0 else OTHER_ROWS))
        parts.append(_text(LABEL + PANEL * speed / max_speed + 5, y + 11, f"{speed:,.0f}"))
        left = LABEL + PANEL + 90
        for name, colour in COLOURS.items():
            length = PANEL * cost[name] / max_cost
            parts.append(_bar(left, y, length, colour))
            left += length
        parts.append(_text(left + 5, y + 11, f"{sum(cost.values()):.0f}"))
    return parts


def _bar(x, y, length, colour, height=ROW - 6):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{length:.1f}" height="{height}" fill="{colour}"/>'


def _text(x, y, content, weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}">{escape(content)}</text>'
