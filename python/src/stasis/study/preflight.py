"""Checks a study's keys by the program before anything is computed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tomli_w

from .._process import run_program
from ..errors import StudyError
from .definition import Study
from .jobs import placed
from .points import Point
from .task import simulation_words

__all__ = ["check_keys"]

_UNKNOWN = re.compile(r"unknown (?:field|key|variant) `([^`]+)`")
#: Virtual time that is over at once: the program reads its job, and ends.
_AT_ONCE = "1ns"


def check_keys(study: Study, program: Path, points: Sequence[Point]) -> None:
    """Raises `StudyError` for an axis with a key that is unknown to the program. Other errors
    belong to points."""
    message = _unknown(study.kind, program, points[0])
    if message is None:
        return
    # The axis with this key: the message names a part of it.
    named = _UNKNOWN.findall(message)
    owners = [axis for axis in points[0].values if set(axis.split(".")) & set(named)]
    if owners:
        raise StudyError(f"the axis `{owners[0]}` names no key: {message}")
    raise StudyError(f"what the study asks cannot be: {message}")


def _unknown(kind: str, program: Path, point: Point) -> str | None:
    """The program's message about an unknown key, if there is one."""
    with tempfile.TemporaryDirectory(prefix="stasis-") as temporary:
        folder = Path(temporary)
        (folder / "inputs" / "new").mkdir(parents=True)
        for each in point.inputs:
            to = folder / "inputs" / each.name
            to.parent.mkdir(parents=True, exist_ok=True)
            to.symlink_to(each.path)
        job = placed(point.job)
        if kind == "sim":
            words = [*simulation_words({**job, "limit": _AT_ONCE}, folder), "--ios", "none", "--results", "results"]
        else:
            # Without a command the program reads the file, and ends.
            job = {key: value for key, value in job.items() if key != "command"}
            if isinstance(job.get("machine"), list):
                job["machine"] = [{k: v for k, v in each.items() if k != "command"} for each in job["machine"]]
            (folder / "experiment.toml").write_text(tomli_w.dumps(job), encoding="utf-8")
            words = ["run", "experiment.toml"]
        command_line = [str(program), "--quiet", *words]
        done = run_program(command_line, cwd=folder, env=point.variables).not_interrupted()
    # The files are of this function's making: their names, places and lines tell a reader nothing.
    placed_at = r"^(model|experiment)\.toml: (line \d+, column \d+: )?(model: )?"
    message = re.sub(placed_at, "", done.message()).partition("\n")[0]
    return message if done.status not in (0, 124) and _UNKNOWN.search(message) else None
