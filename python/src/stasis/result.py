"""Results of a run."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional, Union

from . import plots
from ._figures import operations_of
from ._units import bandwidth
from .errors import ResultsError
from .frame import Frame
from .ios import Ios, find_ios, read_ios, read_timeline

__all__ = ["Result"]

#: The list of files that a run has left in its folder.
_LIST = ".stasis-results"


class Result:
    """A results folder. Shows itself as plots in a notebook.

    ``Result(folder)`` opens one that any run has left. ``label`` is its name in comparisons, by
    default the folder's; ``output`` the command's standard output, where it is known.

    Raises ``ResultsError`` for a folder without results.
    """

    def __init__(self, folder: Union[str, Path], *, output: str = "", label: Optional[str] = None) -> None:
        #: The results folder.
        self.folder = Path(folder)
        #: The command's standard output; empty for an opened folder.
        self.output = output
        #: Name of these results in comparisons.
        self.label = label or self.folder.name
        _ = self.summary

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """``summary.json``: times in virtual seconds, latencies in ns. Each operation of each of its
        ``drives`` has ``count``, ``bytes``, ``errors``, ``iops`` (1/s), ``bytes_per_second`` (B/s)
        and the latencies ``target_ns`` and ``delivered_ns``."""
        return read_json(self.folder / "summary.json")

    @functools.cached_property
    def ios(self) -> Ios:
        """One row for each I/O, read when first asked for.

        Raises ``ResultsError`` where the run kept none, and for a file that is cut off.
        """
        return read_ios(find_ios(self.folder))

    @functools.cached_property
    def timeline(self) -> Frame:
        """What happened inside, one row for each span of virtual time: ``timeline.parquet``; of a run
        with ``timeline=True``.

        Raises ``ResultsError`` where the run kept none.
        """
        return read_timeline(self.folder / "timeline.parquet")

    @property
    def report(self) -> Path:
        """``report.html``, a self-contained page."""
        return self.folder / "report.html"

    @property
    def files(self) -> Mapping[str, Path]:
        """All that the run has left, by its name in the folder."""
        try:
            names = (self.folder / _LIST).read_text(encoding="utf-8").splitlines()
        except OSError:
            names = [each.name for each in self.folder.iterdir()]
        found = {name: self.folder / name for name in names if name}
        return {name: path for name, path in sorted(found.items()) if path.exists()}

    @property
    def exit_status(self) -> int:
        """The command's exit status; 124 if a limit was reached."""
        return int(self.summary["exit_status"])

    @property
    def thresholds(self) -> list[dict[str, Any]]:
        """The run's thresholds, each with ``that``, ``met``, ``figure``, ``value``, ``limit`` and
        ``unit``."""
        return list(self.summary.get("thresholds", []))

    @property
    def ending(self) -> str:
        """The end of the run: ``exited``, ``virtual-limit``, ..."""
        return str(self.summary["ending"])

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """The drive, the operation and its figures, of each that has an I/O."""
        for drive, name, figures in operations_of(self.summary):
            yield drive["name"], name, figures

    def __repr__(self) -> str:
        told = ", ".join(f"{drive}: {_told(name, figures)}" for drive, name, figures in self.operations())
        return f"<Result {self.folder}: {self.ending}, status {self.exit_status}; {told or 'no I/Os'}>"

    def _repr_html_(self) -> str:
        return plots.shown([self])


def _told(operation: str, figures: Mapping[str, Any]) -> str:
    """An operation's count and, where the summary has them, its rates."""
    count = f"{figures['count']:,} {operation}"
    if "iops" not in figures:
        return count
    return f"{count} ({figures['iops']:,.0f} IOPS, {bandwidth(figures['bytes_per_second'])})"


def is_results(folder: Path) -> bool:
    """Whether a folder has a run's results."""
    return (folder / "summary.json").is_file()


def read_json(path: Path) -> dict[str, Any]:
    """Reads an object of JSON. Raises ``ResultsError`` for anything else."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ResultsError(f"{path} is missing: the folder has no results of a run") from error
    except (OSError, ValueError) as error:
        raise ResultsError(f"cannot read {path}: {error}") from error
    if not isinstance(values, dict):
        raise ResultsError(f"{path} is none of a run's: it holds no object")
    return values
