"""Pages of tables and interactive plots. The program draws them from a description, as its own reports."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from ._process import run_program

__all__ = [
    "Axis",
    "Head",
    "Page",
    "Section",
    "Series",
    "distribution",
    "dots",
    "drawn",
    "framed",
    "heat_map",
    "lines",
    "table",
]

#: Limit on the bytes of a page, as for the program's own pages.
LIMIT = 2_000_000
#: Limit on the redraws of a page, each with half of its data, until it is small enough.
LEVELS = 9


@dataclass
class Series:
    """A line of a plot: points in the order of x, and the line's name."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass
class Axis:
    """``quantity`` is "time" (ns), "bytes", "bandwidth", "share" (0 to 1) or "number"; ``scale`` is
    "linear", "from-zero" or "log"."""

    label: str
    quantity: str = "number"
    scale: str = "linear"


@dataclass
class Section:
    """A part of a page: blocks of ``prose``, `table` and plots under a heading."""

    heading: str
    blocks: list[dict[str, Any]] = field(default_factory=list)
    #: Whether it is shown only when the reader asks for it.
    folded: bool = False


@dataclass
class Head:
    """The answer that a page begins with: a sentence, three tiles (the verdict and two more) and a
    `table`. ``tone`` is "good", "bad" or "neutral". In place of the first two a ``study`` has the
    facts from which the program makes them: ``figure``, ``axes``, ``points``, and how many points
    ``failed``, are ``differing`` or ``missing``."""

    sentence: Optional[str]
    verdict: Optional[str]
    tiles: Sequence[tuple[str, str]]
    tone: str = "neutral"
    remarks: list[str] = field(default_factory=list)
    #: What repeats it: ``command``, and ``inputs`` of ``path``, ``bytes`` and ``sha256``.
    repeat: Optional[dict[str, Any]] = None
    table: Optional[dict[str, Any]] = None
    study: Optional[dict[str, Any]] = None


@dataclass
class Page:
    """A page of sections."""

    title: str
    subtitle: str = ""
    sections: list[Section] = field(default_factory=list)
    head: Optional[Head] = None


def distribution(title: str, x: Axis, series: Iterable[Series]) -> dict[str, Any]:
    """Distribution functions: points are a value and the share of values not above it."""
    return {"distribution": {"title": title, "x": vars(x), "series": [vars(each) for each in series]}}


def lines(title: str, x: Axis, y: Axis, series: Iterable[Series]) -> dict[str, Any]:
    """Lines."""
    return {"lines": {"title": title, "x": vars(x), "y": vars(y), "series": [vars(each) for each in series]}}


def dots(title: str, x: Axis, rows: Iterable[tuple[str, Sequence[dict[str, Any]]]]) -> dict[str, Any]:
    """Figures in rows: of each its label, and dots of ``name``, ``value`` and ``interval``."""
    described = [{"label": label, "dots": list(each)} for label, each in rows]
    return {"dots": {"title": title, "x": vars(x), "rows": described}}


def heat_map(
    title: str,
    axes: tuple[str, str],
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[Optional[float]]],
    quantity: str = "number",
) -> dict[str, Any]:
    """Figures by two axes, of which the first goes down: by row and column, None where there is none."""
    described = {"title": title, "axes": list(axes), "rows": list(rows), "columns": list(columns)}
    return {"map": {**described, "quantity": quantity, "values": [list(row) for row in values]}}


def table(header: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", words: int = 1) -> dict[str, Any]:
    """A table, of whose columns the first ``words`` are texts and the others figures."""
    texts = [[str(cell) for cell in row] for row in rows]
    return {"table": {"caption": caption, "columns": list(header), "words": words, "rows": texts}}


def drawn(page: Callable[[int], Page]) -> str:
    """The HTML of a page: of ``page(0)``, or of the first of ``page(1)``, ``page(2)``, ..., that is
    within `LIMIT`.

    Raises ``ProgramNotFound`` and ``ProgramError``.
    """
    for level in range(LEVELS):
        text = _drawn(page(level))
        if len(text.encode()) <= LIMIT:
            break
    return text


def _drawn(page: Page) -> str:
    from ._run import program

    command_line = [str(program()), "page", "-"]
    # A table of a head is no block of a section.
    head = {**vars(page.head), **(page.head.table or {})} if page.head else None
    sections = [vars(each) for each in page.sections]
    described = json.dumps({**vars(page), "head": head, "sections": sections}, allow_nan=False)
    return run_program(command_line, stdin=described.encode()).succeeded().output


#: Sets a frame's height to that of its content.
_AS_HIGH = "this.style.height = this.contentDocument.documentElement.offsetHeight + 4 + 'px'"


def framed(page: str) -> str:
    """A page as a part of a notebook: its styles and scripts stay within its frame."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="plots" style="width: 100%; height: 24em; border: 0" '
        f'onload="{html.escape(_AS_HIGH)}"></iframe>'
    )
