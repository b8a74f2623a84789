"""Draws a dashboard: from its JSON and Prometheus' answers to each panel's queries to a page of HTML.

Knows the kinds of panels, the units and the options that deploy/monitoring/dashboard.json uses, and no others: what it
does not know is an error and not left out. Asks nobody anything.
"""

import html
import math
import re
import time

WIDTH = 1600
# Of the grid that a panel's place is told in: columns, the height of a row, and what is between two.
COLUMNS, ROW, GAP = 24, 26, 8
TITLE, LEGEND_ROW, LEGEND_ROWS = 26, 17, 5
# The axes of all panels have room for the longest of their numbers, so that times stand below each other.
AXIS, AXIS_LETTERS = 68, 9
COLOURS = [
    *("#2a6fbb", "#d9730d", "#2e8b57", "#b83280", "#7a5cc0", "#8a6d1d"),
    *("#0e8a9c", "#c0392b", "#5f6b7a", "#6b8e23", "#e0a800", "#1f2937"),
]
THRESHOLDS = {"green": "#1f8a4c", "orange": "#c76a00", "red": "#c62828", "text": "#24292f"}
CALCS = {"lastNotNull": "Last", "max": "Max"}

STYLE = """
body { margin: 0; background: #f3f4f6; color: #24292f; font: 12px "DejaVu Sans", sans-serif; }
header { position: absolute; left: 8px; right: 8px; top: 10px; }
h1 { display: inline; margin: 0 16px 0 0; font-size: 20px; }
section, h2 { position: absolute; box-sizing: border-box; margin: 0; overflow: hidden; }
h2 { font-size: 14px; line-height: 26px; }
section { background: #fff; border: 1px solid #d5d9de; border-radius: 3px; padding: 0 8px; }
h3 { margin: 0; font-size: 12px; line-height: 26px; white-space: nowrap; }
.stat { position: absolute; inset: 26px 0 6px; display: flex; gap: 24px; align-items: center; justify-content: center; }
.stat div { text-align: center; } .stat b { display: block; font-size: 34px; font-weight: 500; } .stat span { font-size: 12px; }
svg { display: block; } text { font: 11px "DejaVu Sans", sans-serif; fill: #57606a; }
table { width: 100%; border-collapse: collapse; table-layout: fixed; font-size: 11px; }
tr { height: 17px; } td, th { padding: 0; font-weight: 400; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
th { color: #57606a; text-align: right; } th:first-child { text-align: left; }
td:nth-child(n + 2), th:nth-child(n + 2) { width: 92px; text-align: right; }
i { display: inline-block; width: 12px; height: 3px; margin: 0 6px 3px 0; }
"""


class Series:
    """A line: its name in the legend, and a value for each time that has one."""

    def __init__(self, name, points):
        self.name = name
        self.points = [(at, value) for at, value in points if math.isfinite(value)]

    def last(self):
        return self.points[-1][1]

    def max(self):
        return max(value for _, value in self.points)

    def calc(self, name):
        return {"lastNotNull": self.last, "max": self.max}[name]()


def series_of(target, answer):
    """What a query's answer has to show: series without any number are left out."""
    found = []
    for result in answer:
        labels = result["metric"]
        name = re.sub(r"{{\s*(\w+)\s*}}", lambda match: labels.get(match.group(1), ""), target["legendFormat"])
        found.append(Series(name, [(at, float(value)) for at, value in result["values"]]))
    return sorted((series for series in found if series.points), key=lambda series: series.name)


def digits(value):
    text = f"{value:.3g}"
    return f"{float(text):.0f}" if "e" in text else text


def scaled(value, steps):
    """A value in the largest unit that it has one of; else in the last."""
    size, unit = next((step for step in steps if abs(value) >= step[0] * 0.9995), steps[-1])
    return digits(value / size) + unit


def formatted(value, unit):
    counts = [(1e6, " M"), (1e3, " K"), (1, "")]
    if unit == "short":
        return scaled(value, counts)
    if unit == "ops":
        return f"{scaled(value, counts)} /s"
    if unit == "percentunit":
        return f"{digits(100 * value)} %"
    if unit == "bytes":
        return scaled(value, [(1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB"), (1, " B")])
    if unit == "s":
        if value == 0:
            return "0 s"
        return scaled(value, [(3600, " h"), (60, " min"), (1, " s"), (1e-3, " ms"), (1e-6, " µs")])
    raise ValueError(f"the unit {unit} is not known here")


def step_of(top, unit, decimals):
    """How far apart the lines of an axis are, for three to five of them."""
    least = top / 4
    if unit == "bytes":
        return 2.0 ** math.ceil(math.log2(least))
    if unit == "s" and least > 20:
        return next((step for step in (30, 60, 120, 300, 600, 1800) if step >= least), 3600)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(part * power for part in (1, 2, 2.5, 5, 10) if part * power >= least * 0.9999)
    return max(step, 1) if decimals == 0 else step


def path(points, is_step):
    """A line through points, which are not far apart. One that stands alone is seen as a dot."""
    x, y = points[0]
    parts = [f"M{x:.1f} {y:.1f}"]
    parts += [f"H{x:.1f}V{y:.1f}" if is_step else f"L{x:.1f} {y:.1f}" for x, y in points[1:]]
    return "".join(parts) + ("h0" if len(points) == 1 else "")


def pieces(points, step):
    """Points without a gap between them."""
    found = []
    for point in points:
        if found and point[0] - found[-1][-1][0] <= 1.5 * step:
            found[-1].append(point)
        else:
            found.append([point])
    return found


def stacked(all_series):
    """Each series with where it stands, on those before it, at each time."""
    height = {}
    for series in all_series:
        area = []
        for at, value in series.points:
            below = height.get(at, 0.0)
            height[at] = below + value
            area.append((at, below, below + value))
        yield series, area


def plot(panel, all_series, span, width, height):
    defaults = panel["fieldConfig"]["defaults"]
    custom, unit = defaults["custom"], defaults["unit"]
    is_step = custom.get("lineInterpolation") == "stepAfter"
    if custom.get("stacking", {}).get("mode") == "normal":
        areas = list(stacked(all_series))
    else:
        areas = [(series, [(at, 0.0, value) for at, value in series.points]) for series in all_series]
    highest = max(above for _, area in areas for _, _, above in area) or 1.0
    step = step_of(highest, unit, defaults.get("decimals"))
    top = step * math.ceil(highest / step * 0.9999)
    ticks = [step * number for number in range(round(top / step) + 1)]
    names = [formatted(tick, unit) for tick in ticks]
    left, right, bottom = AXIS, width - 14, height - 18
    assert max(map(len, names)) <= AXIS_LETTERS, names
    begin, end, apart = span

    def x(at):
        return left + (right - left) * (at - begin) / (end - begin)

    def y(value):
        return bottom - (bottom - 8) * value / top

    drawn = []
    for tick, name in zip(ticks, names):
        drawn.append(f'<path d="M{left} {y(tick):.1f}H{right}" stroke="#e3e6ea"/>')
        drawn.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{name}</text>')
    between = next(step for step in (30, 60, 120, 300) if (end - begin) / step <= 6)
    for at in range(math.ceil(begin / between) * between, int(end) + 1, between):
        drawn.append(f'<path d="M{x(at):.1f} 8V{bottom}" stroke="#e3e6ea"/>')
        form = "%H:%M" if between % 60 == 0 else "%H:%M:%S"
        # The last would stand out of the panel.
        if left + 15 < x(at) < right - 8:
            name = time.strftime(form, time.gmtime(at))
            drawn.append(f'<text x="{x(at):.1f}" y="{height - 4}" text-anchor="middle">{name}</text>')
    for place, (_, area) in enumerate(areas):
        colour = COLOURS[place % len(COLOURS)]
        for piece in pieces(area, apart):
            over = [(x(at), y(above)) for at, _, above in piece]
            under = [(x(at), y(below)) for at, below, _ in reversed(piece)]
            line = path(over, is_step)
            if len(piece) > 1:
                around = "".join(f"L{px:.1f} {py:.1f}" for px, py in under)
                opacity = custom["fillOpacity"] / 100
                drawn.append(f'<path d="{line}{around}Z" fill="{colour}" fill-opacity="{opacity}"/>')
            wide = custom["lineWidth"] + (2 if len(piece) == 1 else 0.5)
            drawn.append(f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="{wide}" stroke-linecap="round"/>')
    return f'<svg width="{width}" height="{height}">{"".join(drawn)}</svg>'


def legend(panel, all_series):
    calcs, unit = panel["options"]["legend"]["calcs"], panel["fieldConfig"]["defaults"]["unit"]
    order = sorted(range(len(all_series)), key=lambda place: -all_series[place].max())
    left_out = len(order) - LEGEND_ROWS
    # The row that says how many are left out takes the place of one.
    shown = sorted(order if left_out <= 0 else order[: LEGEND_ROWS - 1])
    head = "Name" if left_out <= 0 else f"Name (the {len(shown)} highest of {len(order)})"
    rows = [f"<tr><th>{head}</th>" + "".join(f"<th>{CALCS[calc]}</th>" for calc in calcs) + "</tr>"]
    for place in shown:
        series = all_series[place]
        cells = "".join(f"<td>{formatted(series.calc(calc), unit)}</td>" for calc in calcs)
        colour = COLOURS[place % len(COLOURS)]
        rows.append(f'<tr><td><i style="background: {colour}"></i>{html.escape(series.name)}</td>{cells}</tr>')
    return f"<table>{''.join(rows)}</table>", len(rows)


def stat(panel, all_series):
    defaults = panel["fieldConfig"]["defaults"]
    shown = []
    for series in all_series:
        value = series.last()
        steps = defaults["thresholds"]["steps"]
        colour = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
        number = f'<b style="color: {THRESHOLDS[colour]}">{formatted(value, defaults["unit"])}</b>'
        has_name = panel["options"]["textMode"] == "value_and_name"
        name = f"<span>{html.escape(series.name)}</span>" if has_name else ""
        shown.append(f"<div>{number}{name}</div>")
    return f'<div class="stat">{"".join(shown)}</div>'


def draw_panel(panel, all_series, span, top):
    place = panel["gridPos"]
    column = (WIDTH - GAP) / COLUMNS
    left, width = GAP + place["x"] * column, place["w"] * column - GAP
    upper, height = top + place["y"] * (ROW + GAP), place["h"] * (ROW + GAP) - GAP
    style = f"left: {left:.1f}px; top: {upper}px; width: {width:.1f}px; height: {height}px"
    title = html.escape(panel["title"])
    if panel["type"] == "row":
        return f'<h2 style="{style}">{title}</h2>'
    if not all_series:
        body = '<div class="stat">No data</div>'
    elif panel["type"] == "stat":
        body = stat(panel, all_series)
    elif panel["type"] == "timeseries":
        table, rows = legend(panel, all_series)
        rest = height - 2 - TITLE - rows * LEGEND_ROW - 6
        body = plot(panel, all_series, span, int(width) - 18, rest) + table
    else:
        raise ValueError(f"a panel of the type {panel['type']} is not known here")
    return f'<section style="{style}"><h3>{title}</h3>{body}</section>'


def draw(dashboard, series_by_panel, chosen, span):
    """The whole page. `chosen` says what was asked for, `span` from when to when and how far apart the values are."""
    top = 44
    panels = dashboard["panels"]
    drawn = [draw_panel(panel, series_by_panel.get(panel["id"]), span, top) for panel in panels]
    height = top + max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * (ROW + GAP)
    begin, end, _ = span
    times = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(begin)), time.strftime("%H:%M:%S UTC", time.gmtime(end))
    asked = " · ".join(html.escape(f"{label}: {value}") for label, value in chosen)
    title = html.escape(dashboard["title"])
    head = f"<header><h1>{title}</h1>{times[0]} to {times[1]} · {asked}</header>"
    page = f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return f'{page}<body style="position: relative; height: {height}px">{head}{"".join(drawn)}</body>'
