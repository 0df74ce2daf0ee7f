"""The results of a study."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ..errors import ProgramError, ProgramNotFound, ResultsError
from ..frame import Frame
from ..ios import Ios
from ..pages import framed
from ..result import Result
from .dataset import dataset_of, read_dataset
from .page import page_of
from .points import Point

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray

__all__ = ["Failure", "StudyResult"]


@dataclass(frozen=True)
class Failure:
    """A failed point, with the reason."""

    point: str
    key: str
    message: str


@dataclass
class StudyResult:
    """A study's results. Shows itself as plots in a notebook."""

    name: str
    #: The study's folder.
    folder: Path
    #: The keys along which the study varies.
    axes: list[str]
    #: How many points the study has.
    total: int
    finished: list[Point]
    #: Points that could not be computed.
    failures: list[Failure] = field(default_factory=list)
    #: How many points were computed again on another worker.
    verified: int = 0
    #: Of these, those whose bytes differ.
    differences: list[Failure] = field(default_factory=list)
    #: How many points this call computed; the others were finished.
    computed: int = 0
    #: How long this call took, and the programs that it ran together (s).
    elapsed: float = 0.0
    own_seconds: float = 0.0
    workers: int = 0
    #: What repeats the study, as `Head.repeat` has it; None where no file describes it.
    repeat: Optional[dict[str, Any]] = None

    @functools.cached_property
    def figures(self) -> Frame:
        """One row for each point, drive and operation, with the axes as columns: numbers and truth
        values as such, texts and tables as texts."""
        return Frame(read_dataset(self.folder / "figures", [point.values for point in self.finished]))

    @functools.cached_property
    def ios(self) -> Ios:
        """Every I/O of every point, with the axes as columns; of a study with `ios = "parquet"`."""
        return Ios(read_dataset(self.folder / "ios", [point.values for point in self.finished]))

    @property
    def report(self) -> Path:
        """``report.html``, a self-contained page."""
        return self.folder / "report.html"

    @functools.cached_property
    def unmet(self) -> list[Failure]:
        """The thresholds that finished points did not meet."""
        points = zip(self.finished, self.results())
        judged = ((point, one) for point, result in points for one in result.thresholds if not one["met"])
        return [
            Failure(point.label(), point.key, f"{one['that']}: {one['figure']} is {_value(one)}")
            for point, one in judged
        ]

    @property
    def ok(self) -> bool:
        """Whether all points are finished and met their thresholds, and all that were compared had
        equal results."""
        return not self.failures and not self.differences and not self.unmet

    def results(self) -> Sequence[Result]:
        """Each finished point's results."""
        return [Result(self.folder / "points" / each.key, label=each.label()) for each in self.finished]

    def result(self, **values: Any) -> Result:
        """The one point with these values; axes by the last part of their keys.

        Raises `ResultsError` where none or several have them.
        """

        def has(point: Point) -> bool:
            short = {name.rsplit(".", 1)[-1].replace("-", "_"): value for name, value in point.values.items()}
            return all({**short, **point.values}.get(name) == value for name, value in values.items())

        found = [each for each in self.finished if has(each)]
        if len(found) != 1:
            raise ResultsError(f"{len(found)} finished points have {values}; name more or other axes")
        return Result(self.folder / "points" / found[0].key, label=found[0].label())

    def to_pandas(self) -> pandas.DataFrame:
        """`figures` as a frame of pandas."""
        return self.figures.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """`figures` as a frame of Polars."""
        return self.figures.to_polars()

    def to_xarray(self) -> xarray.Dataset:
        """`figures` as a data set of xarray: a dimension for each axis, for ``drive`` and for
        ``operation``, and a variable for each figure, with its ``units``.

        A point that is not finished, and an operation that had no I/O, is NaN. A dimension has the last
        part of its axis's key, ``policy`` of ``model.gc.policy``, where no other axis ends so. A value
        that is a table is its text.
        """
        return dataset_of(self.figures.table, self.axes)

    def __repr__(self) -> str:
        state = f"{len(self.finished):,} of {self.total:,} points"
        return f"<StudyResult {self.name} in {self.folder}: {state}, {len(self.failures):,} failed>"

    def _repr_html_(self) -> Optional[str]:
        try:
            return framed(page_of(self))
        except (ProgramError, ProgramNotFound):
            # Without a program to draw plots, a notebook shows the line above.
            return None


def _value(threshold: Mapping[str, Any]) -> str:
    """The value of a threshold's figure with its unit."""
    value = threshold["value"]
    return "not there" if value is None else f"{value:,.10g} {threshold['unit']}".rstrip()
