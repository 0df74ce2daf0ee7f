"""Pages of tables and interactive plots. The program draws them from a description, as its own reports."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from ._process import run_program
from .errors import ProgramError

__all__ = ["Axis", "Page", "Section", "Series", "distribution", "drawn", "framed", "lines", "table"]

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


@dataclass
class Page:
    """A page of sections."""

    title: str
    subtitle: str = ""
    sections: list[Section] = field(default_factory=list)


def distribution(title: str, x: Axis, series: Iterable[Series]) -> dict[str, Any]:
    """Distribution functions: points are a value and the share of values not above it."""
    return {"distribution": {"title": title, "x": vars(x), "series": [vars(each) for each in series]}}


def lines(title: str, x: Axis, y: Axis, series: Iterable[Series]) -> dict[str, Any]:
    """Lines."""
    return {"lines": {"title": title, "x": vars(x), "y": vars(y), "series": [vars(each) for each in series]}}


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
    described = json.dumps({**vars(page), "sections": [vars(each) for each in page.sections]}, allow_nan=False)
    done = run_program(command_line, stdin=described.encode())
    if done.status != 0:
        raise ProgramError(done.message(), status=done.status, command_line=command_line)
    return done.output


#: Sets a frame's height to that of its content.
_AS_HIGH = "this.style.height = this.contentDocument.documentElement.offsetHeight + 4 + 'px'"


def framed(page: str) -> str:
    """A page as a part of a notebook: its styles and scripts stay within its frame."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="plots" style="width: 100%; height: 24em; border: 0" '
        f'onload="{html.escape(_AS_HIGH)}"></iframe>'
    )
