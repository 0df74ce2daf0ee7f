"""Results of a run."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional, Union

from . import plots
from .errors import ResultsError
from .ios import Ios, find_ios, read_ios

__all__ = ["Result"]

#: The list of files that a run has left in its folder.
_LIST = ".stasis-results"


class Result:
    """A results folder (docs/reference/results.md). Shows itself as plots in a notebook.

    ``Result(folder)`` opens one that any run has left.
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
        """``summary.json``."""
        return read_json(self.folder / "summary.json")

    @functools.cached_property
    def ios(self) -> Ios:
        """One row for each I/O, read when first asked for."""
        return read_ios(find_ios(self.folder))

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
    def ending(self) -> str:
        """The end of the run: ``exited``, ``virtual-limit``, ..."""
        return str(self.summary["ending"])

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """The drive, the operation and its figures, of each that has an I/O."""
        for drive in self.summary["drives"]:
            for name, figures in drive.items():
                if isinstance(figures, dict) and figures.get("count"):
                    yield drive["name"], name, figures

    def __repr__(self) -> str:
        counts = ", ".join(f"{drive}: {figures['count']:,} {name}" for drive, name, figures in self.operations())
        return f"<Result {self.folder}: {self.ending}, status {self.exit_status}; {counts or 'no I/Os'}>"

    def _repr_html_(self) -> str:
        return plots.shown([self])


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
