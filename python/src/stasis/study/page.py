"""A study's report: one page, without a network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._units import nanos
from ..pages import Axis, Page, Section, Series, distribution, drawn, lines, table
from ..plots import CARRIED, LATENCY, PERCENTILES, carried_percentiles

if TYPE_CHECKING:
    from .outcome import Failure, StudyResult

__all__ = ["page_of"]

#: Maximum number of lines on one plot; more cannot be distinguished.
_MOST_LINES = 8
#: Maximum numbers of rows of a table, and of points of a line.
_MOST_ROWS = 128
_MOST_POINTS = 64
_SHOWN = ("mean", "p50", "p99", "p99.9", "max")


def page_of(result: StudyResult) -> str:
    """The page, as HTML.

    Raises ``ProgramNotFound`` and ``ProgramError``: the program draws it.
    """
    rows = result.figures.to_pylist() if result.finished else []
    return drawn(lambda level: _page(result, rows, level))


def _page(result: StudyResult, rows: Sequence[dict[str, Any]], level: int) -> Page:
    """The page in less detail with each level."""
    sections = [Section("", _state(result, level))]
    # Plots and tables of each axis, as far as there is room.
    room = 64 >> (level - 4) if level >= 4 else math.inf
    left_out = 0
    for drive, operation in dict.fromkeys((row["drive"], row["operation"]) for row in rows):
        of = [row for row in rows if (row["drive"], row["operation"]) == (drive, operation)]
        section = Section(f"{drive}: {operation}")
        section.blocks += _distributions(of, result.axes)
        for axis in (axis for axis in result.axes if len({str(row[axis]) for row in of}) > 1):
            if room > 0:
                section.blocks += _effect(of, axis, level)
            else:
                left_out += 1
            room -= 1
        sections += [section] if section.blocks else []
    if left_out:
        sections.append(Section("", [{"prose": f"{left_out:,} more effects are in `figures`."}]))
    return Page(result.name, subtitle=f"A study of {', '.join(result.axes) or 'one point'}.", sections=sections)


def _state(result: StudyResult, level: int) -> list[dict[str, Any]]:
    facts = [("Points", f"{result.total:,}"), ("Finished", f"{len(result.finished):,}")]
    if result.verified:
        facts.append(("Computed again on another worker", f"{result.verified:,}"))
        facts.append(("Of these with other bytes", f"{len(result.differences):,}"))
    blocks: list[dict[str, Any]] = [{"facts": facts}]
    blocks += _failures("Points that failed", result.failures, level)
    blocks += _failures("Points that do not repeat", result.differences, level)
    return blocks


def _failures(caption: str, failures: Sequence[Failure], level: int) -> list[dict[str, Any]]:
    if not failures:
        return []
    return _limited(caption, ["point", "why"], [(each.point, each.message) for each in failures], "log.jsonl", level, 2)


def _limited(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[object]], rest: str, level: int, words: int = 1
) -> list[dict[str, Any]]:
    """A table of the first rows, and where the others are."""
    most = max(_MOST_ROWS >> level, 4)
    blocks = [table(header, rows[:most], caption, words)]
    if len(rows) > most:
        blocks.append({"prose": f"{len(rows) - most:,} more are in `{rest}`."})
    return blocks


def _distributions(rows: Sequence[dict[str, Any]], axes: Sequence[str]) -> list[dict[str, Any]]:
    """The distribution of each point, as long as there are few: those of unlike points have no common one."""
    if len(rows) > _MOST_LINES:
        said = f"Distributions are drawn of at most {_MOST_LINES} points; `study.result(...)` shows that of one."
        return [{"prose": said}]
    told = [axis for axis in axes if len({str(row[axis]) for row in rows}) > 1]

    def series(row: dict[str, Any]) -> Series:
        name = ", ".join(f"{axis} = {row[axis]}" for axis in told) or "the point"
        figures = {name: row.get(f"delivered_{name}_ns") for name in PERCENTILES}
        return Series(name, carried_percentiles(figures, row["count"]))

    return [{"plots": [distribution("Latency by point", LATENCY, [series(row) for row in rows])]}]


def _nominal(axis: str) -> bool:
    """Whether an axis' numbers are names: seeds are repetitions, without an order."""
    return axis.rsplit(".", 1)[-1] == "seed"


def _values(rows: Sequence[dict[str, Any]], axis: str) -> list[Any]:
    """The values of an axis. The name of a data set's folder has a fraction as a text, which is a number again here."""
    values = [row[axis] for row in rows]
    try:
        return [float(value) if isinstance(value, str) else value for value in values]
    except ValueError:
        return values


def _effect(rows: Sequence[dict[str, Any]], axis: str, level: int) -> list[dict[str, Any]]:
    """The effect of one axis: latencies by its values, the geometric mean over all other axes."""
    by_value: dict[Any, list[dict[str, Any]]] = {}
    for value, row in zip(_values(rows, axis), rows):
        by_value.setdefault(value, []).append(row)
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in by_value)
    values = sorted(by_value) if numeric else sorted(by_value, key=str)
    # Only percentiles that the points with the fewest I/Os support.
    least = min(row["count"] for row in rows)
    names = [name for name in _SHOWN if least >= CARRIED.get(name, 1)]
    means = {value: {name: _mean(by_value[value], name) for name in names} for value in values}
    plots = []
    if numeric and len(values) > 2 and not _nominal(axis):
        of = _thinned(values, max(_MOST_POINTS >> level, 8))
        series = [Series(name, [(float(value), means[value][name]) for value in of]) for name in names]
        scale = "log" if values[0] >= 1 and values[-1] >= 30 * values[0] else "linear"
        alone = all(len(points) == 1 for points in by_value.values())
        title = f"Latency by {axis}" if alone else f"Latency by {axis}, the geometric mean of the points"
        plots.append(lines(title, Axis(axis, scale=scale), LATENCY, series))
    cells = [(value, len(by_value[value]), *(nanos(means[value][name]) for name in names)) for value in values]
    caption = f"Latency by {axis}, the geometric mean of the points"
    blocks = _limited(caption, [axis, "points", *names], cells, "figures", level)
    return [*blocks, {"plots": plots}] if plots else blocks


def _mean(rows: Iterable[dict[str, Any]], name: str) -> float:
    logs = [math.log(max(row[f"delivered_{name}_ns"], 1.0)) for row in rows]
    return round(math.exp(sum(logs) / len(logs)), 3)


def _thinned(values: Sequence[Any], most: int) -> list[Any]:
    """At most ``most`` of the values, from the first to the last."""
    last = len(values) - 1
    return list(values) if last < most else [values[index * last // (most - 1)] for index in range(most)]
