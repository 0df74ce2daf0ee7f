"""A study's report: one page, without a network."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import plots

if TYPE_CHECKING:
    from .outcome import StudyResult

__all__ = ["body_of", "page_of"]

#: More lines than this on one plot cannot be told apart.
_MOST_LINES = 8
_SHOWN = ("mean", "p50", "p99", "p99.9", "max")


def page_of(result: StudyResult) -> str:
    """The page."""
    name = html.escape(result.name)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width"><style>body { margin: 2em auto; max-width: 70em; '
        "padding: 0 1em; color-scheme: light dark }</style></head><body>"
        f"{body_of(result)}</body></html>\n"
    )


def body_of(result: StudyResult) -> str:
    """What of it a notebook shows."""
    rows = result.figures.to_pylist()
    parts = [f"<h2>{html.escape(result.name)}</h2>", _state(result)]
    for drive, operation in dict.fromkeys((row["drive"], row["operation"]) for row in rows):
        of = [row for row in rows if (row["drive"], row["operation"]) == (drive, operation)]
        parts.append(f"<h3>{html.escape(f'{drive}: {operation}')}</h3>")
        parts += [_effect(of, axis) for axis in result.axes if len({str(row[axis]) for row in of}) > 1]
    return f'<style>{plots.STYLE}</style><div class="stasis">{"".join(parts)}</div>'


def _state(result: StudyResult) -> str:
    facts = [("points", f"{result.total:,}"), ("finished", f"{len(result.finished):,}")]
    if result.verified:
        facts.append(("computed again on another worker", f"{result.verified:,}"))
        facts.append(("of these with other bytes", f"{len(result.differences):,}"))
    parts = [plots.table(["study", ""], facts)]
    if result.failures:
        rows = [(each.point, each.message) for each in result.failures]
        parts.append(plots.table(["failed", "why"], rows))
    if result.differences:
        parts.append(plots.table(["differs", "where"], [(each.point, each.message) for each in result.differences]))
    return "".join(parts)


def _effect(rows: Sequence[dict[str, Any]], axis: str) -> str:
    """The effect of one axis: latencies by its values, the geometric mean over all other axes."""
    values = sorted({row[axis] for row in rows}, key=lambda value: (not isinstance(value, (int, float)), str(value)))
    if all(isinstance(value, (int, float)) for value in values):
        values = sorted(values)
    table = []
    series = []
    for value in values:
        of = [row for row in rows if row[axis] == value]
        means = {name: _mean(row[f"delivered_{name}_ns"] for row in of) for name in _SHOWN}
        table.append([value, len(of), *(plots.nanos(means[name]) for name in _SHOWN)])
        shares = [("p1", 0.01), ("p10", 0.1), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99)]
        points = [(_mean(row[f"delivered_{name}_ns"] for row in of), share) for name, share in shares]
        series.append(plots.Series(f"{axis} = {value}", points))
    shown = series if len(series) <= _MOST_LINES else series[:: -(-len(series) // _MOST_LINES)]
    plot = plots.lines(shown, title=f"latency by {axis}", x="delivered latency, geometric mean of the points", y="CDF")
    return plot + plots.table([axis, "points", *_SHOWN], table)


def _mean(values: Iterable[float]) -> float:
    logs = [math.log(max(value, 1.0)) for value in values]
    return math.exp(sum(logs) / len(logs))
