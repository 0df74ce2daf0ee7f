"""Plots for notebooks and reports: plain SVG and tables, without a library and without a network."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from .errors import ResultsError

if TYPE_CHECKING:
    from .result import Result

#: Most bytes of a file of I/Os that a plot reads; beyond, percentiles of the summary do.
MOST = 200 << 20
#: Colours that eight in a hundred men can tell apart: Okabe and Ito, "Color universal design", 2008.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#666666")

#: The percentiles of the summary, in order.
PERCENTILES = (
    "min",
    "p1",
    "p5",
    "p10",
    "p25",
    "p50",
    "p75",
    "p90",
    "p95",
    "p99",
    "p99.9",
    "p99.99",
    "max",
)
#: How many I/Os carry a percentile (docs/reference/results.md).
CARRIED = {"p99": 100, "p99.9": 1_000, "p99.99": 10_000}

STYLE = """
.stasis { font: 13px/1.5 system-ui, sans-serif; color-scheme: light dark; }
.stasis svg { max-width: 100%; height: auto; }
.stasis table { border-collapse: collapse; margin: .6em 0; font-variant-numeric: tabular-nums; }
.stasis th, .stasis td { padding: .15em .7em; text-align: right; border-bottom: 1px solid #8884; }
.stasis th:first-child, .stasis td:first-child { text-align: left; }
.stasis text { fill: currentColor; font: 11px system-ui, sans-serif; }
"""


@dataclass
class Series:
    """A line of a plot: points in the order of x, and what it is called."""

    name: str
    points: Sequence[tuple[float, float]]


def nanos(value: float) -> str:
    """A time with its unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} ns"


def _places(low: float, high: float) -> list[float]:
    """The powers of ten, and halves and fifths between where these are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(powers) > 4 else (1, 2, 5)
    all_of = (step * 10.0**power for power, step in itertools.product(powers, steps))
    return [place for place in all_of if low <= place <= high]


def lines(series: Sequence[Series], *, title: str, x: str, y: str, width: int = 640, height: int = 300) -> str:
    """Lines over a logarithmic x of times (ns), y from 0 to 1; a series tells its name when
    the mouse is on it."""
    points = [point for each in series for point in each.points if point[0] > 0]
    if not points:
        return f"<p>{html.escape(title)}: nothing to plot</p>"
    low, high = min(p[0] for p in points) / 1.1, max(p[0] for p in points) * 1.1
    left, right, top, bottom = 48, width - 12, 24, height - 40

    def at_x(value: float) -> float:
        part = math.log(max(value, low) / low) / math.log(high / low)
        return left + part * (right - left)

    def at_y(value: float) -> float:
        return bottom - value * (bottom - top)

    parts = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f'<title>{html.escape(title)}</title><text x="{left}" y="14">{html.escape(title)}</text>',
    ]
    for value in (0, 0.25, 0.5, 0.75, 1):
        parts.append(_grid(left, at_y(value), right, at_y(value)))
        parts.append(f'<text x="{left - 6}" y="{at_y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for place in _places(low, high):
        parts.append(_grid(at_x(place), top, at_x(place), bottom))
        parts.append(f'<text x="{at_x(place):.1f}" y="{bottom + 15}" text-anchor="middle">{nanos(place)}</text>')
    parts.append(f'<text x="{(left + right) / 2}" y="{height - 6}" text-anchor="middle">{html.escape(x)}</text>')
    parts.append(f'<text x="4" y="14">{html.escape(y)}</text>')
    for index, each in enumerate(series):
        path = " ".join(f"{at_x(px):.1f},{at_y(py):.1f}" for px, py in each.points)
        parts.append(
            f'<polyline fill="none" stroke="{COLOURS[index % len(COLOURS)]}" stroke-width="1.8" '
            f'points="{path}"><title>{html.escape(each.name)}</title></polyline>'
        )
    parts.append("</svg>")
    return "".join(parts) + _legend(series)


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" stroke-opacity=".15"/>'


def _legend(series: Sequence[Series]) -> str:
    if len(series) < 2:
        return ""
    entries = (
        f'<span style="margin-right:1.2em"><b style="color:{COLOURS[index % len(COLOURS)]}">&#9644;</b> '
        f"{html.escape(each.name)}</span>"
        for index, each in enumerate(series)
    )
    return f"<div>{''.join(entries)}</div>"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; text is escaped."""
    head = "".join(f"<th>{html.escape(each)}</th>" for each in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _distribution(result: Result, drive: str, operation: str, figures: dict[str, Any]) -> Series:
    """The delivered latencies' cumulative distribution: of every I/O where these are few enough to read."""
    found = _quantiles(result, drive, operation)
    if found is None:
        summary = figures["delivered_ns"]
        shares = [0.0, *(float(name[1:]) / 100 for name in PERCENTILES[1:-1]), 1.0]
        known = [
            (float(summary[name]), share)
            for name, share in zip(PERCENTILES, shares)
            if summary.get(name) is not None and figures["count"] >= CARRIED.get(name, 1)
        ]
        found = known
    return Series(f"{result.label} {drive} {operation}", found)


def _quantiles(result: Result, drive: str, operation: str) -> Optional[list[tuple[float, float]]]:
    import pyarrow.compute as pc

    from .ios import find_ios

    try:
        if find_ios(result.folder).stat().st_size > MOST:
            return None
        ios = result.ios
    except ResultsError:
        return None
    chosen = pc.and_(
        pc.and_(pc.equal(ios["drive"], drive), pc.equal(ios["operation"], operation)),
        pc.and_(pc.equal(ios["phase"], "command"), pc.equal(ios["status"], "ok")),
    )
    latencies = pc.filter(ios.latency_ns(), chosen)
    if len(latencies) == 0:
        return None
    shares = [step / 200 for step in range(201)] + [0.999, 0.9999]
    shares.sort()
    values = pc.quantile(latencies, q=shares, interpolation="lower").to_pylist()
    return [(float(value), share) for value, share in zip(values, shares)]


def figures_table(results: Sequence[Result]) -> str:
    """Delivered latencies of each drive and operation, as the program's own table has them."""

    def rows() -> Iterable[list[str]]:
        for result in results:
            for drive, operation, figures in result.operations():
                delivered = figures["delivered_ns"]
                count = figures["count"]
                cells = [
                    nanos(delivered[name]) if count >= CARRIED.get(name, 1) else "–"
                    for name in ("mean", "p50", "p99", "p99.9", "max")
                ]
                yield [result.label, drive, operation, f"{count:,}", *cells]

    return table(["results", "drive", "operation", "I/Os", "mean", "p50", "p99", "p99.9", "max"], rows())


def page_of(results: Sequence[Result]) -> str:
    """The distributions of several results over each other, by operation, and their figures."""
    by_operation: dict[str, list[Series]] = {}
    for result in results:
        for drive, operation, figures in result.operations():
            series = _distribution(result, drive, operation, figures)
            by_operation.setdefault(operation, []).append(series)
    parts = [
        lines(series, title=f"{operation}: latency", x="delivered latency", y="CDF")
        for operation, series in by_operation.items()
    ]
    return f'<style>{STYLE}</style><div class="stasis">{"".join(parts)}{figures_table(results)}</div>'
