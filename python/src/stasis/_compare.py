"""Several results beside each other."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import pyarrow as pa

from . import plots
from ._collect import Results, collect, results_of
from ._process import run_program
from ._units import in_unit
from .errors import ProgramError, ProgramNotFound, ResultsError
from .frame import Frame
from .ios import find_ios
from .result import Result

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Comparison", "compare"]

_DIFFERENCES = pa.schema(
    [
        pa.field("base", pa.string()),
        pa.field("results", pa.string()),
        pa.field("drive", pa.string()),
        pa.field("operation", pa.string()),
        pa.field("statistic", pa.string()),
        pa.field("unit", pa.string()),
        *(pa.field(f"{whose}{name}", pa.float64()) for whose in ("base_", "") for name in ("value", "low", "high")),
        pa.field("percent", pa.float64(), metadata={"unit": "%"}),
        pa.field("significant", pa.bool_()),
    ]
)


class Comparison:
    """Results beside each other, the first of which is the base. Shows itself as plots and a table
    of the significant differences in a notebook."""

    def __init__(self, candidates: Mapping[str, Sequence[Result]]) -> None:
        #: What is compared, by its label: a run's results, or those of several runs, such as one for each seed.
        self.candidates = {label: list(results) for label, results in candidates.items()}

    @property
    def results(self) -> list[Result]:
        """The results of all candidates, one after the other."""
        return [result for results in self.candidates.values() for result in results]

    @functools.cached_property
    def figures(self) -> Frame:
        """One row for each result, drive and operation, as `Collection.figures` has it."""
        return collect(*self.results).figures

    @functools.cached_property
    def differences(self) -> Frame:
        """One row for each candidate but the base, drive, operation and figure: the rates ``IOPS``
        and ``bandwidth``, and of the delivered latency ``mean``, ``p50``, ``p95``, ``p99`` and
        ``p99.9``; as ``stasis compare`` computes and orders them.

        Columns: ``base`` and ``results``, the labels; ``drive``, ``operation``; ``statistic``, the
        figure, and its ``unit`` (``1/s``, ``B/s``, ``ns``); ``base_value`` and ``value``;
        ``base_low``, ``base_high``, ``low`` and ``high``, their intervals of 95 %; ``percent``, by
        which ``value`` is above the base; ``significant``, whether the intervals do not overlap. A
        percentile that too few I/Os carry is left out.

        Raises `ResultsError` where there is only one candidate, or one has kept no I/Os, and
        `ProgramError` where they have no drive and operation in common.
        """
        if len(self.candidates) < 2:
            raise ResultsError("a comparison needs two results at least; name another")
        return Frame(pa.Table.from_pylist(self._compared(), schema=_DIFFERENCES))

    def _compared(self) -> list[dict[str, Any]]:
        from ._run import program

        # The program names a candidate by its path.
        labels = {_file_name(label, number): label for number, label in enumerate(self.candidates)}
        with tempfile.TemporaryDirectory(prefix="stasis-") as temporary:
            for name, label in labels.items():
                folder, results = Path(temporary) / name, self.candidates[label]
                for result in results:
                    # Where I/Os are missing, this error names the folder itself.
                    find_ios(result.folder)
                if len(results) == 1:
                    folder.symlink_to(results[0].folder.resolve())
                    continue
                folder.mkdir()
                for run, result in enumerate(results):
                    (folder / str(run)).symlink_to(result.folder.resolve())
            words = ["--quiet", "compare", "--results", ".comparison", "--", *labels]
            command_line = [str(program().resolve()), *words]
            done = run_program(command_line, cwd=Path(temporary))
            if done.status != 0:
                raise ProgramError(done.message(), status=done.status, command_line=command_line)
            text = (Path(temporary) / ".comparison" / "comparison.json").read_text(encoding="utf-8")
        return [_row(each, next(iter(self.candidates)), labels) for each in json.loads(text)]

    def to_pandas(self) -> pandas.DataFrame:
        """`differences` as a frame of pandas."""
        return self.differences.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """`differences` as a frame of Polars."""
        return self.differences.to_polars()

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.candidates)}>"

    def _repr_html_(self) -> str:
        return plots.shown(self.results) + (self._significant() or "")

    def _significant(self) -> Optional[str]:
        """The significant differences as a table, where there is something to compare."""
        try:
            rows = [row for row in self.differences.to_pylist() if row["significant"]]
        except (ProgramError, ProgramNotFound, ResultsError):
            return None
        if not rows:
            return "<p>No difference is significant.</p>"
        header = ["results", "drive", "operation", "figure", "base", "this", "difference"]
        cells = ("results", "drive", "operation", "statistic")
        figures = [
            (*(row[each] for each in cells), *(in_unit(row[each], row["unit"]) for each in ("base_value", "value")))
            for row in rows
        ]
        changes = [f"{row['percent']:+.2f} %" for row in rows]
        return plots.html_table(header, [[*each, change] for each, change in zip(figures, changes)])


def _file_name(label: str, number: int) -> str:
    """The label where it can be a file's name, so that a message has it; else the number."""
    plain = "/" not in label and not label.startswith(".") and len(label.encode()) <= 200
    return label if plain and label else f".{number}"


def _row(told: Mapping[str, Any], base: str, labels: Mapping[str, str]) -> dict[str, Any]:
    row = {
        "base": base,
        "results": labels[told["candidate"]],
        **{key: told[key] for key in ("drive", "operation", "statistic", "unit", "percent", "significant")},
    }
    for whose, figure in (("base_", told["base"]), ("", told["value"])):
        row.update({f"{whose}{part}": figure[part] for part in ("value", "low", "high")})
    return row


def compare(*results: Results, **named: Results) -> Comparison:
    """Puts results beside each other, the first of which is the base; keywords name them:
    ``compare(disk=a, flash=b)``.

    Each argument is a `Result`, a folder of results, or several runs of the same experiment, such
    as one for each seed: a list of results, or a folder of such folders. Of several runs the
    intervals are those of the runs' figures.

    Raises `ResultsError` for a folder without results.
    """
    candidates: dict[str, list[Result]] = {}

    def add(label: str, several: list[Result]) -> None:
        unique, number = label, 2
        while unique in candidates:
            unique, number = f"{label}-{number}", number + 1
        alone = len(several) == 1
        candidates[unique] = [
            Result(each.folder, output=each.output, label=unique if alone else f"{unique}/{each.label}")
            for each in several
        ]

    for each in results:
        several = results_of(each)
        if not several:
            raise ResultsError("an empty list has no results to compare")
        label = several[0].label if len(several) == 1 else _label(each, several)
        add(label, several)
    for name, each in named.items():
        several = results_of(each)
        if not several:
            raise ResultsError(f"{name} is an empty list, which has no results to compare")
        add(name, several)
    return Comparison(candidates)


def _label(given: Results, several: Sequence[Result]) -> str:
    """The label of several runs: their folder's name."""
    if isinstance(given, (str, Path)):
        return Path(given).name
    return several[0].folder.parent.name or several[0].label
