"""Points: the inputs that decide each, and the key derived from them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._paths import model_with_paths, with_paths
from ..errors import StudyError
from .axes import Values, flattened
from .definition import Study
from .digests import canonical, digest_of, digest_of_program
from .guests import GuestFolder, made
from .jobs import with_variables

__all__ = ["BESIDE_GUEST", "FORMAT", "SIMULATION", "Input", "Point", "points_with_keys", "stays_within"]

#: Changes when the meaning of a job changes, so that no old results are taken for new.
FORMAT = 1
#: Memory of a simulation beside its model's map, and of the program and QEMU beside a guest
#: (bytes): measured with `/usr/bin/time -v`, rounded up.
SIMULATION = 256 << 20
BESIDE_GUEST = 768 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "k": 1000}


@dataclass(frozen=True)
class Input:
    """A file that a point reads."""

    path: str
    digest: str
    size: int
    #: Whether the run also writes it, so that it gets a copy.
    medium: bool = False

    @property
    def name(self) -> str:
        """Its place among a point's inputs. The file keeps its own name: a guest sees it."""
        return f"{self.digest[:16]}/{Path(self.path).name}"


@dataclass
class Point:
    """One point of a study."""

    values: Values
    #: The program's job, with inputs at ``@DIGEST/NAME``.
    job: dict[str, Any]
    inputs: list[Input]
    #: The hash of all that decides the results.
    key: str = ""
    memory: int = 0
    guests: list[GuestFolder] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    #: Whether its wall-clock time counts, so that nothing else is computed beside it.
    alone: bool = False

    def label(self) -> str:
        """The point as a person reads it."""
        return ", ".join(f"{name} = {value}" for name, value in self.values.items()) or "the only point"


def points_with_keys(study: Study, program: Path) -> list[Point]:
    """The study's points, each with its key.

    Raises `StudyError` for inputs that are missing and for points that are the same.
    """
    program_digest = digest_of_program(program)
    points = [_point(study, values) for values in study.values()]
    guests: dict[bytes, GuestFolder] = {}
    seen: dict[str, Point] = {}
    for point in points:
        if study.kind == "run":
            guest = point.job.get("guest", {})
            recipe = {key: value for key, value in guest.items() if key not in ("files", "templates", "stdin")}
            known = canonical(recipe)
            if known not in guests:
                guests[known] = made(program, recipe)
            point.guests = [guests[known]]
        guest = ",".join(each.digest for each in point.guests)
        decides = [FORMAT, study.kind, point.job, point.variables, program_digest, guest, study.ios]
        point.key = hashlib.sha256(canonical(decides)).hexdigest()
        if point.key in seen:
            raise StudyError(
                f"two points ask the same: {seen[point.key].label()}, and {point.label()}; take one of the two away"
            )
        seen[point.key] = point
    return points


def stays_within(study: Study, folder: Path) -> None:
    """Raises `StudyError` for a file of the study that is not below ``folder``, by any links, before it is read."""
    folder = folder.resolve()

    def check(path: str, _what: str = "") -> str:
        if not (study.job_base / path).resolve().is_relative_to(folder):
            raise StudyError(f"{path} leads out of {folder}")
        return path

    for file in study.files:
        check(str(Path(file).resolve()))
    for axis, said in flattened(study.axes).items():
        if isinstance(said, Mapping):
            for pattern in said.values():
                check(str(pattern))
        _check_system(axis, said if isinstance(said, list) else [said])
    for values in study.values():
        job = with_variables(study.job(values))
        if study.kind == "run":
            with_paths(job, check)
        else:
            _with_simulated_paths(job, check, study.job_base)
        for key in ("kernel", "root"):
            _check_system(f"guest.{key}", [job.get("guest", {}).get(key)])


def _check_system(axis: str, values: Sequence[Any]) -> None:
    """Raises `StudyError` where the guest's kernel or root is this computer's."""
    key = axis.rsplit(".", 1)[-1]
    for value in (each for each in values if isinstance(each, str) and key in ("kernel", "root")):
        if key == "root" or "/" in value or value.startswith("~"):
            raise StudyError(f"the guest's {key}, {value}, is of this computer, and not of the study")


def _point(study: Study, values: Values) -> Point:
    job = with_variables(study.job(values))
    variables = job.pop("variable", {})
    inputs: dict[str, Input] = {}

    def change(path: str, what: str) -> str:
        absolute = study.job_base / path
        if what == "medium" and not absolute.exists():
            # The run makes it, in the point's own folder.
            return "@new/" + absolute.name
        found = Input(str(absolute), digest_of(absolute), _size(absolute), what == "medium")
        inputs[found.name] = found
        return "@" + found.name

    job = with_paths(job, change) if study.kind == "run" else _with_simulated_paths(job, change, study.job_base)
    memory = _bytes(study.memory) if study.memory is not None else _memory(study.kind, job)
    return Point(values, job, list(inputs.values()), memory=memory, variables=variables)


def _with_simulated_paths(job: dict[str, Any], change: Any, base: Path) -> dict[str, Any]:
    changed = dict(job)
    model = job.get("model")
    if model is None:
        raise StudyError("[simulate] has no `model`; add one, or an axis `model`")
    if isinstance(model, str) and ":" not in model and (base / model).is_file():
        changed["model"] = change(model, "input")
    else:
        changed["model"] = model_with_paths(model, change)
    if ("workload" in job) == ("trace" in job):
        raise StudyError("[simulate] has either a `workload` or a `trace`; give one of the two")
    if "[" not in job.get("workload", "["):
        changed["workload"] = change(job["workload"], "input")
    if "trace" in job:
        changed["trace"] = change(job["trace"], "input")
    return changed


def _size(path: Path) -> int:
    return 0 if path.is_dir() else os.stat(path).st_size


def _bytes(size: Any) -> int:
    """A size as the program reads it, roughly: for a host's memory only.

    Raises `StudyError`.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(?:i?B)?\s*", str(size))
    if found is None:
        raise StudyError(f'memory is {size!r}; write bytes, or a size such as "2GiB"')
    return int(float(found[1]) * _UNITS[found[2]])


def _memory(kind: str, job: Mapping[str, Any]) -> int:
    """Memory of a host that a point takes (bytes)."""
    if kind == "sim":
        return SIMULATION
    machines = job.get("machine", {})
    machines = [machines] if isinstance(machines, dict) else machines
    drives = [*job.get("drive", []), *(drive for each in machines for drive in each.get("drive", []))]
    total = BESIDE_GUEST + sum(_bytes(each.get("memory", "1GiB")) for each in machines)
    for drive in drives:
        medium = drive.get("medium", "")
        if isinstance(medium, dict) and "ram" in medium:
            total += _bytes(medium["ram"])
        elif isinstance(medium, str) and medium.startswith("ram:"):
            total += _bytes(medium[len("ram:") :])
    return total
