"""Publications repeated as studies: each of their experiments is a point."""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

import pyarrow as pa

from .._process import run_program
from .._run import program as the_program
from ..errors import ProgramError, ResultsError, StudyError
from ..frame import Frame
from ..ios import Ios
from ..pages import framed
from ..result import Result
from .axes import Values
from .digests import canonical, digest_of_program
from .folder import StudyFolder
from .guests import GuestFolder, made
from .outcome import StudyResult
from .points import BESIDE_GUEST, FORMAT, SIMULATION, Point
from .running import Running

if TYPE_CHECKING:
    import xarray

__all__ = ["Reproduction", "ReproductionResult", "reproduce"]

#: Folder in which the program finds all parts, and writes its page and figures.
_RUNS = "runs"


@dataclass
class Reproduction:
    """A publication's experiments, as ``stasis reproduce --list`` has them."""

    name: str
    #: Its options.
    words: list[str]
    #: The engine that the machines run on, wherever that is.
    engine: str
    #: The program's description of each experiment.
    parts: list[dict[str, Any]] = field(repr=False)
    kind: str = "reproduce"
    ios: str = "none"
    report: bool = True

    @classmethod
    def listed(cls, publication: str, options: Sequence[str]) -> Reproduction:
        """Asks the program.

        Raises `StudyError` with its message.
        """
        command_line = [str(the_program()), "reproduce", publication, *options, "--list", "--json"]
        done = run_program(command_line).not_interrupted()
        if done.status != 0:
            raise StudyError(f"{publication} cannot be repeated: {done.message()}")
        try:
            said = json.loads(done.output)
            engine, parts = str(said["engine"]), list(said["parts"])
        except (ValueError, KeyError, TypeError) as error:
            raise StudyError(
                f"the program's list of experiments cannot be read ({error}): package and program are of two "
                "versions; install the same one"
            ) from error
        # The workers run the engine that `auto` selects on this machine.
        words = [publication, *_without_engine(options), "--engine", engine]
        return cls(publication, words, engine, parts)

    def values(self) -> list[Values]:
        """The name of each point: an experiment, or several that are compared by the wall clock."""
        return [{"part": "+".join(part["name"] for part in group)} for group in self.groups()]

    def groups(self) -> list[list[dict[str, Any]]]:
        """The experiments, those together that run on one computer one after another."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for part in self.parts:
            # A name has no line's end, so that no group's is an experiment's.
            groups.setdefault(f"\n{part['timed']}" if part["timed"] else part["name"], []).append(part)
        return list(groups.values())

    def points(self, program: Path, one_at_a_time: bool) -> list[Point]:
        """The points, each with its key. Guests are made where they are not there. Machines in real
        time would disturb one another: ``one_at_a_time`` has nothing computed beside them.

        Raises `StudyError` where a guest cannot be made.
        """
        digest = digest_of_program(program)
        guests: dict[bytes, GuestFolder] = {}

        def guest(table: Mapping[str, Any]) -> GuestFolder:
            inputs = ("files", "templates", "stdin")
            recipe = {key: value for key, value in table.items() if key not in inputs and value}
            known = canonical(recipe)
            if known not in guests:
                guests[known] = made(program, recipe)
            return guests[known]

        def point(values: Values, group: list[dict[str, Any]]) -> Point:
            job = {"words": self.words, "parts": [part["name"] for part in group]}
            found = list(dict.fromkeys(guest(table) for part in group for table in part["guests"]))
            decides = [FORMAT, self.kind, self.name, [[part["name"], part["digest"]] for part in group]]
            decides += [self.engine, digest, [each.digest for each in found]]
            memory = max(part["memory"] for part in group)
            timed = any(part["timed"] for part in group)
            return Point(
                values=values,
                job=job,
                inputs=[],
                key=hashlib.sha256(canonical(decides)).hexdigest(),
                memory=memory + BESIDE_GUEST if memory else SIMULATION,
                guests=found,
                alone=timed or (one_at_a_time and memory > 0),
            )

        return [point(values, group) for values, group in zip(self.values(), self.groups())]


def _without_engine(options: Sequence[str]) -> list[str]:
    words = list(options)
    if "--engine" in words:
        place = words.index("--engine")
        del words[place : place + 2]
    return words


@dataclass
class ReproductionResult(StudyResult):
    """The results of a reproduction. Shows its page in a notebook."""

    #: The table of figures, as the program prints it.
    text: str = ""

    @functools.cached_property
    def figures(self) -> Frame:
        """A row for each figure: ``id``, ``what``, ``unit``, ``published``, ``closed_form``, ``measured``."""
        path = self.folder / "figures.json"
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ResultsError(f"cannot read {path}: {error}") from error
        texts = [(name, pa.string()) for name in ("id", "what", "unit")]
        numbers = [(name, pa.float64()) for name in ("published", "closed_form", "measured")]
        return Frame(pa.Table.from_pylist(rows, schema=pa.schema([*texts, *numbers])))

    def to_xarray(self) -> xarray.Dataset:
        """Raises `ResultsError`: the experiments of a publication lie on no grid."""
        raise ResultsError("a reproduction's experiments lie on no grid; `figures` has a row for each figure")

    @property
    def ios(self) -> Ios:
        """Raises `ResultsError`: each run has its own, see `results`."""
        raise ResultsError("a reproduction's I/Os are those of its runs: .results() has them")

    def results(self) -> Sequence[Result]:
        """Each finished run's results; simulations leave figures only."""
        folders = [self.folder / _RUNS / part for point in self.finished for part in point.job["parts"]]
        return [Result(folder) for folder in folders if (folder / "summary.json").exists()]

    def _repr_html_(self) -> Optional[str]:
        return framed(self.report.read_text(encoding="utf-8")) if self.report.exists() else None


class _Reproducing(Running):
    """One call of `reproduce`."""

    RESULT = ReproductionResult
    _result: ReproductionResult
    _study: Reproduction

    def _write(self) -> None:
        """Has the program make figures and page of the finished parts."""
        folder = self._folder.folder
        runs = folder / _RUNS
        shutil.rmtree(runs, ignore_errors=True)
        runs.mkdir()
        for point in self._result.finished:
            for part in point.job["parts"]:
                (runs / part).symlink_to(Path("..") / "points" / point.key / part)
        # The page shows the command line, so paths are relative: the same wherever the folder is.
        command_line = [str(the_program()), "--quiet", "reproduce", *self._study.words, "--gather", "--results", _RUNS]
        done = run_program(command_line, cwd=folder).not_interrupted()
        made_now = [path for path in runs.iterdir() if path.is_file() and not path.is_symlink()]
        if "report.html" not in (path.name for path in made_now):
            raise ProgramError(done.message(), status=done.status, command_line=command_line)
        for path in made_now:
            os.replace(path, folder / path.name)
        self._result.text = done.output


def reproduce(
    publication: str,
    *,
    on: Union[str, concurrent.futures.Executor, Any, None] = None,
    workers: Optional[int] = None,
    verify: int = 0,
    results: Union[str, Path, None] = None,
    quick: bool = False,
    full: bool = False,
    device: Sequence[str] = (),
    engine: Optional[str] = None,
    progress: Optional[bool] = None,
) -> ReproductionResult:
    """Repeats a publication's experiments as a study, and makes its figures and its page of all of
    them.

    ``publication``: its name, such as ``"femu"``, as ``stasis reproduce`` takes it. ``on``,
    ``workers`` and ``verify`` are those of `sweep`. ``engine``: of its guests (``"exact"``), by
    default the program's choice. ``progress``: whether bars are shown, by default on a terminal and
    in a notebook. ``quick`` makes fewer experiments and I/Os, ``full`` as many as the publication;
    ``device`` names the drives of ``coordination``.
    ``results`` is the folder, by default ``PUBLICATION-study``.

    An experiment that is finished, by the same program and settings, is never run again. Those that
    fail are in the result and do not stop others; their figures are empty.

    Raises `StudyError` where the publication cannot be repeated as asked, or not there.
    """
    options = ["--quick"] * quick + ["--full"] * full
    if device:
        options += ["--device", ",".join(device)]
    if engine is not None:
        options += ["--engine", engine]
    study = Reproduction.listed(publication, options)
    program = the_program()
    points = study.points(program, study.engine != "exact" and workers is None)
    folder = StudyFolder(Path(results) if results is not None else Path(f"{publication}-study"), study)
    with folder.opened() as visible:
        run = _Reproducing(study, points, folder, visible, digest_of_program(program), progress)
        result = run.through(on, workers, verify)
    assert isinstance(result, ReproductionResult)
    return result
