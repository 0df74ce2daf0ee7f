"""The view of results in notebooks: plots, and their figures as a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from ._units import bandwidth, nanos
from .errors import ProgramError, ProgramNotFound, ResultsError
from .pages import Axis, Page, Section, Series, distribution, drawn, framed

if TYPE_CHECKING:
    from .result import Result

#: Limit on the I/Os that a plot reads, some 400 MB; beyond it, percentiles of the summary are
#: plotted.
MOST = 4_000_000

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
#: How many I/Os carry a percentile.
CARRIED = {"p99": 100, "p99.9": 1_000, "p99.99": 10_000}

#: The axis of latencies.
LATENCY = Axis("Delivered latency", "time", "log")


def _distribution(result: Result, drive: str, operation: str, figures: dict[str, Any], steps: int) -> Series:
    """The delivered latencies' cumulative distribution: of every I/O where these are few enough to read."""
    found = _quantiles(result, drive, operation, steps)
    if found is None:
        found = carried_percentiles(figures["delivered_ns"], figures["count"])
    return Series(f"{result.label} {drive} {operation}", found)


def carried_percentiles(figures: Mapping[str, Optional[float]], count: int) -> list[tuple[float, float]]:
    """Values with the shares that are not above them, of the percentiles that so many I/Os carry."""
    shares = [0.0, *(float(name[1:]) / 100 for name in PERCENTILES[1:-1]), 1.0]
    known = ((figures.get(name), share, CARRIED.get(name, 1)) for name, share in zip(PERCENTILES, shares))
    return [(float(value), share) for value, share, least in known if value is not None and count >= least]


def _quantiles(result: Result, drive: str, operation: str, steps: int) -> Optional[list[tuple[float, float]]]:
    import pyarrow.compute as pc

    try:
        if sum(figures["count"] for _, _, figures in result.operations()) > MOST:
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
    shares = [step / steps for step in range(steps + 1)] + [0.999, 0.9999]
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
                rates = (
                    [f"{figures['iops']:,.0f}", bandwidth(figures["bytes_per_second"])]
                    if "iops" in figures
                    else ["–"] * 2
                )
                yield [result.label, drive, operation, f"{count:,}", *rates, *cells]

    header = ["results", "drive", "operation", "I/Os", "IOPS", "bandwidth", "mean", "p50", "p99", "p99.9", "max"]
    return html_table(header, rows())


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table that a notebook shows in its own style; text is escaped."""
    head = "".join(f"<th>{html.escape(each)}</th>" for each in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _page(results: Sequence[Result], level: int) -> Page:
    """The distributions of several results over each other, by operation; in less detail with each level."""
    by_operation: dict[str, list[Series]] = {}
    for result in results:
        for drive, operation, figures in result.operations():
            series = _distribution(result, drive, operation, figures, max(200 >> level, 10))
            by_operation.setdefault(operation, []).append(series)
    plots = [distribution(f"{operation}: latency", LATENCY, series) for operation, series in by_operation.items()]
    title = " and ".join(dict.fromkeys(each.label for each in results))
    return Page(title, sections=[Section("", [{"plots": plots}])])


def shown(results: Sequence[Result]) -> str:
    """The HTML for a notebook: plots, and their figures, which stay if plots cannot be shown."""
    try:
        plots = framed(drawn(lambda level: _page(results, level)))
    except (ProgramError, ProgramNotFound) as error:
        plots = f"<p>No plots: {html.escape(str(error))}</p>"
    return plots + figures_table(results)
