"""A study: an experiment or a simulation, and the axes along which it varies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

from .._toml import tomllib
from ..errors import ExperimentError, StudyError
from ..experiment import Experiment, plain, unknown_key
from .axes import Values, flattened, points_of, read_csv, values_of
from .jobs import SIMULATE, with_value

__all__ = ["Study"]

#: Types of the keys of a study, and their names in messages.
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "name": ((str,), "a text"),
    "results": ((str, os.PathLike), "a folder's name"),
    "simulate": ((Mapping,), "a table of options of `stasis sim`"),
    "axes": ((Mapping,), "a table of keys and their values"),
    "points": ((str, os.PathLike, Sequence), "a CSV's name, or a list of tables"),
    "where": ((str,), "a condition in quotes"),
    "memory": ((int, str), 'a size such as "2GiB"'),
    "report": ((bool,), "true or false"),
    "base": ((str, os.PathLike), "a folder's name"),
}
_KEYS = (
    "name", "results", "experiment", "simulate", "axes", "points", "where", "ios", "memory", "report", "base",
)  # fmt: skip


@dataclass
class Study:
    """A study, as in ``STUDY.toml``: it has either an experiment or a simulation."""

    name: str
    experiment: Optional[Experiment] = None
    #: The options of ``stasis sim``: ``model``, ``workload``, ``size``, ...
    simulate: Optional[Mapping[str, Any]] = None
    #: The values of each key: a list, a range ``"1..10"``, ``{"files": "jobs/*.fio"}``.
    axes: Mapping[str, Any] = field(default_factory=dict)
    #: Points that are listed, or a CSV of them. Each is combined with all that the axes give.
    points: Union[str, Path, Sequence[Mapping[str, Any]], None] = None
    #: A condition: points that do not meet it are left out.
    where: Optional[str] = None
    #: ``parquet`` keeps each point's I/Os, ``none`` only its figures.
    ios: str = "none"
    #: Memory of a host that a point takes; by default computed from the experiment.
    memory: Union[int, str, None] = None
    #: Whether each point keeps its ``report.html``.
    report: bool = False
    #: The folder that relative paths start from.
    base: Path = field(default_factory=Path.cwd)
    #: The folder of the results; by default ``NAME-study``.
    results: Union[str, Path, None] = None
    #: The files that describe it, its own first; none of a study that is made in Python.
    files: Sequence[Path] = ()

    @classmethod
    def read(cls, path: Union[str, Path]) -> Study:
        """Reads a study's file at ``path``; its relative paths start at its folder.

        Raises `StudyError` with the place.
        """
        path = Path(path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise StudyError(f"cannot read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise StudyError(f"{path} is no text in UTF-8 ({error.reason}); a study is a TOML file") from error
        except tomllib.TOMLDecodeError as error:
            raise StudyError(f"{path}: {error}") from error
        try:
            return cls._from_dict(values, path)
        except (ExperimentError, StudyError) as error:
            raise StudyError(f"{path}: {error}") from error

    @classmethod
    def _from_dict(cls, values: dict[str, Any], path: Path) -> Study:
        for key in values:
            if key not in _KEYS:
                raise StudyError(unknown_key(key, dict.fromkeys(_KEYS), "a study"))
        _check_types(values)
        base = (path.resolve().parent / values.pop("base", "")).resolve()
        files = [path]
        experiment = values.pop("experiment", None)
        if isinstance(experiment, str):
            files.append(base / experiment)
            experiment = Experiment.read(base / experiment)
        elif isinstance(experiment, Mapping):
            experiment = Experiment.from_dict(experiment)
            experiment.base = base
        elif experiment is not None:
            raise StudyError(f"`experiment` is {experiment!r}; write a file's name, or a table")
        values["axes"] = flattened(values.get("axes", {}))
        values.setdefault("name", path.stem)
        listed = values.get("points")
        files += [base / listed] if isinstance(listed, str) else []
        return cls(experiment=experiment, base=base, files=files, **values)

    def __post_init__(self) -> None:
        _check_types(vars(self))
        if (self.experiment is None) == (self.simulate is None):
            raise StudyError("a study has either an `experiment` or a `simulate`; give one of the two")
        if self.ios not in ("none", "parquet"):
            raise StudyError(f'ios is {self.ios!r}, but must be "none" or "parquet"')
        for key in self.simulate or ():
            if key in _KEYS:
                raise StudyError(f"`{key}` is a key of the study, not of [simulate]: write it above the first [table]")
            if key not in (*SIMULATE, "variable"):
                raise StudyError(unknown_key(key, dict.fromkeys(SIMULATE), "[simulate]"))

    def written(self, folder: Path) -> str:
        """The study as the text of a file in ``folder``.

        Raises `StudyError` where a value is none that a file can have.
        """
        import tomli_w

        points: Any = self.points
        if isinstance(points, (str, Path)):
            points = os.path.relpath(self.base / points, self.job_base)
        values = {
            "name": self.name,
            "base": os.path.relpath(self.job_base, folder.resolve()),
            "where": self.where,
            "ios": self.ios,
            "memory": self.memory,
            "report": self.report,
            "points": [flattened(point) for point in points] if isinstance(points, (list, tuple)) else points,
            "experiment": None if self.experiment is None else self.experiment.to_dict(),
            "simulate": None if self.simulate is None else plain(self.simulate),
            "axes": {name: values_of(name, said, self.job_base) for name, said in flattened(self.axes).items()},
        }
        try:
            return tomli_w.dumps({key: value for key, value in values.items() if value is not None})
        except (TypeError, ValueError) as error:
            raise StudyError(f"the study cannot be written: {error}") from error

    @property
    def kind(self) -> str:
        """``run`` or ``sim``."""
        return "run" if self.experiment is not None else "sim"

    @property
    def folder(self) -> Path:
        """The folder of the results."""
        return Path(self.results) if self.results is not None else Path(f"{self.name}-study")

    @property
    def job_base(self) -> Path:
        """The folder that the job's relative paths start from."""
        if self.experiment is not None:
            return self.experiment.base or self.base
        return self.base

    def values(self) -> list[Values]:
        """Every point of the study, as the values of its axes."""
        flat = flattened(self.axes)
        misplaced = [key for key in flat if key in _KEYS]
        if misplaced:
            raise StudyError(f"`{misplaced[0]}` is a key of the study, and no axis: write it above the first [table]")
        axes = {name: values_of(name, said, self.job_base) for name, said in flat.items()}
        source = "the points"
        listed: list[Values] = []
        if isinstance(self.points, (str, Path)):
            source = str(self.points)
            listed = read_csv(self.base / self.points)
        elif self.points is not None:
            listed = [flattened(point) for point in self.points]
            if not listed:
                raise StudyError("the study lists no points; list some, or leave `points` out")
        return points_of(axes, listed, self.where, source)

    def job(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The job of the program for a point: ``values`` are those of its axes, by their keys.

        Raises `StudyError` for an axis that names no key, and for two that set the same.
        """
        if self.experiment is not None:
            job = self.experiment.to_dict()
            job.pop("results", None)
        else:
            job = plain(self.simulate)
        # A whole table is set before single keys in it.
        for key in sorted(values, key=lambda key: key.count(".")):
            job = with_value(job, self.kind, key, values[key])
        return job

    def contradictions(self, values: Mapping[str, Any]) -> None:
        """Raises `StudyError` where two axes of a point, by ``values``, set the same, as by a drive's name and by
        its place."""
        job = self.job(values)
        places: dict[str, str] = {}
        for key in values:
            # The place of the value, found as the difference that a mark there makes.
            place = _difference(job, with_value(job, self.kind, key, _MARK))
            if place in places:
                raise StudyError(f"the axes `{places[place]}` and `{key}` set the same; take one of the two away")
            places[place] = key


def _check_types(values: Mapping[str, Any]) -> None:
    """Raises `StudyError` for a key whose value is something else."""
    for key, (kinds, meant) in _TYPES.items():
        value = values.get(key)
        odd = isinstance(value, bool) and bool not in kinds
        if value is not None and (odd or not isinstance(value, kinds)):
            raise StudyError(f"`{key}` is {value!r}; write {meant}")
    points = values.get("points")
    if isinstance(points, Sequence) and not isinstance(points, str):
        wrong = [each for each in points if not isinstance(each, Mapping)]
        if wrong:
            raise StudyError(f"`points` lists {wrong[0]!r}; each point is a table, such as {{ seed = 1 }}")


#: A value that nothing has.
_MARK = "\0"


def _difference(one: Any, other: Any, at: str = "") -> str:
    """The place where two tables differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in other:
            if one.get(key) != other[key]:
                return _difference(one.get(key), other[key], f"{at}.{key}")
    if isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(one, other)):
            if left != right:
                return _difference(left, right, f"{at}.{index}")
    return at
