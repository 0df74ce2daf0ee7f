"""A study's report: one page, without a network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Optional

from .._units import bandwidth, nanos
from ..pages import Axis, Head, Page, Section, Series, distribution, dots, drawn, heat_map, lines, table
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
#: Limits on the values of an axis of a heat map, and on the rows of a plot of intervals.
_MOST_CELLS = 24
_MOST_INTERVALS = 24


def page_of(result: StudyResult) -> str:
    """The page, as HTML.

    Raises ``ProgramNotFound`` and ``ProgramError``: the program draws it.
    """
    rows = result.figures.to_pylist() if result.finished else []
    return drawn(lambda level: _page(result, rows, level))


def _page(result: StudyResult, rows: Sequence[dict[str, Any]], level: int) -> Page:
    """The page in less detail with each level."""
    sections = []
    # Plots and tables of each axis, as far as there is room.
    room = 64 >> (level - 4) if level >= 4 else math.inf
    left_out = 0
    for drive, operation in dict.fromkeys((row["drive"], row["operation"]) for row in rows):
        of = [row for row in rows if (row["drive"], row["operation"]) == (drive, operation)]
        section = Section(f"{drive}: {operation}")
        section.blocks += _maps(of, result.axes)
        section.blocks += _over_seeds(of, result.axes)
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
    failures = _failures("Points that failed", result.failures, level)
    failures += _failures("Points that do not repeat", result.differences, level)
    failures += _failures("Thresholds that were not met", result.unmet, level)
    if failures:
        sections.insert(0, Section("What went wrong", failures))
    subtitle = f"A study of {', '.join(result.axes) or 'one point'}."
    return Page(result.name, subtitle, sections, _head(result, rows, level))


def _head(result: StudyResult, rows: Sequence[dict[str, Any]], level: int) -> Head:
    """The answer: which point is fastest and which slowest, and a table of all."""
    if result.failures:
        verdict, tone = f"{len(result.failures):,} failed", "bad"
    elif result.differences:
        verdict, tone = f"{len(result.differences):,} do not repeat", "bad"
    elif result.unmet:
        count = len({each.key for each in result.unmet})
        verdict, tone = f"{count:,} points miss thresholds", "bad"
    elif len(result.finished) < result.total:
        verdict, tone = "unfinished", "neutral"
    else:
        verdict, tone = "complete", "good"
    verified = ("Computed again, same bytes", f"{result.verified - len(result.differences):,} of {result.verified:,}")
    ios = ("I/Os", f"{sum(row['count'] for row in rows):,}")
    tiles = [("Points finished", f"{len(result.finished):,} of {result.total:,}"), verified if result.verified else ios]
    sentence, points = _extremes(rows, result.axes), _points(rows, result.axes, level)
    return Head(sentence, verdict, tiles, tone, repeat=result.repeat, table=points)


def _extremes(rows: Sequence[dict[str, Any]], axes: Sequence[str]) -> str:
    """The points with the least and the greatest latency of the operation with the most I/Os."""
    if not rows:
        return "No point has an I/O to a modelled drive."
    ios: dict[tuple[str, str], int] = {}
    for row in rows:
        subject = (row["drive"], row["operation"])
        ios[subject] = ios.get(subject, 0) + row["count"]
    drive, operation = max(ios, key=lambda subject: ios[subject])
    of = [row for row in rows if (row["drive"], row["operation"]) == (drive, operation)]
    name = "p99" if min(row["count"] for row in of) >= CARRIED["p99"] else "mean"
    ends = [pick(of, key=lambda row: row[f"delivered_{name}_ns"]) for pick in (min, max)]
    least, greatest = (nanos(end[f"delivered_{name}_ns"]) for end in ends)
    if len(of) == 1:
        return f"The {name} of {operation}s of {drive} is {least}."
    if least == greatest:
        return f"The {name} of {operation}s of {drive} is {least} at each of {len(of):,} points."
    told = _told(of, axes)
    first, last = (_label(end, told) for end in ends)
    return (
        f"Of {len(of):,} points, {first} has the least {name} of {operation}s of {drive}, {least}; "
        f"{last} has the greatest, {greatest}."
    )


def _told(rows: Sequence[dict[str, Any]], axes: Sequence[str]) -> list[str]:
    """The axes that have several values."""
    return [axis for axis in axes if len({str(row[axis]) for row in rows}) > 1]


def _label(row: dict[str, Any], axes: Sequence[str]) -> str:
    return ", ".join(f"{axis} = {row[axis]}" for axis in axes) or "the point"


def _points(rows: Sequence[dict[str, Any]], axes: Sequence[str], level: int) -> dict[str, Any]:
    """A table of all points, a row for each drive and operation."""
    most = max(_MOST_ROWS >> level, 4)
    for axis in reversed(axes):
        places = {text: place for place, text in enumerate(_in_order(rows, axis))} if rows else {}
        rows = sorted(rows, key=lambda row: places[str(row[axis])])

    def cells(row: dict[str, Any]) -> list[object]:
        carried = [
            nanos(row[f"delivered_{name}_ns"]) if row["count"] >= CARRIED.get(name, 1) else "–" for name in _SHOWN
        ]
        rates = [_rate(row.get("iops")), _bandwidth(row.get("bytes_per_second"))]
        return [*(row[axis] for axis in axes), row["drive"], row["operation"], *rates, *carried]

    more = f" The first {most} of {len(rows):,}; all are in `figures`." if len(rows) > most else ""
    header = [*axes, "drive", "operation", "IOPS", "bandwidth", *_SHOWN]
    caption = f"Each point's rates and delivered latencies.{more}"
    return table(header, map(cells, rows[:most]), caption, len(axes) + 2)


def _rate(value: Optional[float]) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _bandwidth(value: Optional[float]) -> str:
    return "–" if value is None else bandwidth(value)


def _maps(rows: Sequence[dict[str, Any]], axes: Sequence[str]) -> list[dict[str, Any]]:
    """Heat maps of the first two axes with several values."""
    down, across, *_ = [*(axis for axis in _told(rows, axes) if not _nominal(axis)), None, None]
    if down is None or across is None:
        return []
    labels = [_in_order(rows, axis) for axis in (down, across)]
    if max(map(len, labels)) > _MOST_CELLS:
        return []
    plots = []
    for name in _carried_by_all(rows, ("mean", "p99")):

        def cell(row: str, column: str, name: str = name) -> Optional[float]:
            of = [each for each in rows if (str(each[down]), str(each[across])) == (row, column)]
            return _mean(of, name) if of else None

        values = [[cell(row, column) for column in labels[1]] for row in labels[0]]
        plots.append(heat_map(f"{name} by {down} and {across}", (down, across), *labels, values, "time"))
    return [{"plots": plots}]


def _in_order(rows: Sequence[dict[str, Any]], axis: str) -> list[str]:
    """The values of an axis as texts: numbers by size."""
    named = dict(zip(_values(rows, axis), (str(row[axis]) for row in rows)))
    numeric = all(isinstance(value, (int, float)) for value in named)
    return [named[value] for value in (sorted(named) if numeric else sorted(named, key=str))]


def _over_seeds(rows: Sequence[dict[str, Any]], axes: Sequence[str]) -> list[dict[str, Any]]:
    """The latencies of points that differ in their seed only: the seeds' mean, least and greatest."""
    told = _told(rows, axes)
    if not any(_nominal(axis) for axis in told):
        return []
    others = [axis for axis in told if not _nominal(axis)]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_label(row, others) if others else "all seeds", []).append(row)
    names = _carried_by_all(rows, ("mean", "p50", "p99", "p99.9"))

    def dot(of: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
        values = [row[f"delivered_{name}_ns"] for row in of]
        interval = [min(values), max(values)]
        return {"name": name, "value": sum(values) / len(values), "interval": interval, "about": f"{len(of)} seeds"}

    shown = list(groups.items())[:_MOST_INTERVALS]
    found = [(label, [dot(of, name) for name in names]) for label, of in shown]
    blocks: list[dict[str, Any]] = [{"plots": [dots("Over seeds: mean, least and greatest", LATENCY, found)]}]
    if len(groups) > len(shown):
        blocks.append({"prose": f"{len(groups) - len(shown):,} more are in `figures`."})
    return blocks


def _carried_by_all(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[str]:
    """The percentiles that the points with the fewest I/Os support."""
    least = min(row["count"] for row in rows)
    return [name for name in names if least >= CARRIED.get(name, 1)]


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
    told = _told(rows, axes)

    def series(row: dict[str, Any]) -> Series:
        name = _label(row, told)
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
    names = _carried_by_all(rows, _SHOWN)
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
