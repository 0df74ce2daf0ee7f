"""A study's folder: its owner, the finished points, and the log."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ..errors import StudyError
from .axes import Values
from .points import Point
from .task import RECORD, Outcome, Visible, recorded, store

__all__ = ["Grid", "StudyFolder", "write_at_once"]


class Grid(Protocol):
    """A set of points: a `Study`, or a reproduction."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """The program's command for a point: ``run``, ``sim`` or ``reproduce``."""

    @property
    def ios(self) -> str: ...

    @property
    def report(self) -> bool: ...

    def values(self) -> list[Values]:
        """Every point, as the values of its axes."""


class StudyFolder:
    """The folder of a study's results:

    - ``study.json``: the study that owns the folder, and what repeats it;
    - ``study.toml``: a study that was made in Python, as a file;
    - ``points/KEY``: a finished point's results, with its record ``point.json``;
    - ``working``: unfinished points, removed when the study continues;
    - ``log.jsonl``: events, one object a line;
    - ``figures``, ``ios``, ``report.html``: the results together.
    """

    def __init__(self, folder: Path, study: Grid) -> None:
        self.folder = folder.absolute()
        self._about = {"name": study.name, "kind": study.kind, "axes": sorted(study_axes(study))}

    @property
    def points(self) -> Path:
        """Where finished points are."""
        return self.folder / "points"

    @contextmanager
    def opened(self) -> Iterator[Visible]:
        """The folder for one study at a time, made where it is not there.

        Raises `StudyError` where it is another study's, somebody's else, or in use.
        """
        is_new = not self.folder.exists()
        identity = self._claim()
        try:
            with self._locked(identity) as visible:
                yield visible
        except BaseException:
            # A study that could not begin leaves nothing.
            if is_new and not any(self.points.glob("*")):
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @contextmanager
    def _locked(self, identity: str) -> Iterator[Visible]:
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StudyError(f"the study in {self.folder} is being run now; wait until it has ended") from error
            # Points that were unfinished when the study was interrupted.
            shutil.rmtree(self.folder / "working", ignore_errors=True)
            for name in ("working", "points"):
                (self.folder / name).mkdir(exist_ok=True)
            yield Visible(str(self.folder), identity)

    def _claim(self) -> str:
        path = self.folder / "study.json"
        if self.folder.exists() and not self.folder.is_dir():
            raise StudyError(f"{self.folder} is a file, and no folder; name another one with `results`")
        if not path.exists():
            if self.folder.exists() and any(self.folder.iterdir()):
                raise StudyError(
                    f"{self.folder} is not empty, and is no study's folder; name another one with `results`"
                )
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                about = {**self._about, "id": uuid.uuid4().hex}
                write_at_once(path, (json.dumps(about, indent=1) + "\n").encode())
            except OSError as error:
                raise StudyError(f"cannot make the study's folder {self.folder}: {error.strerror}") from error
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            identity = str(about.pop("id"))
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise StudyError(f"{path} cannot be read: {error}; name another folder with `results`") from error
        for key, mine in self._about.items():
            if about.get(key) != mine:
                raise StudyError(
                    f"{self.folder} belongs to another study: its {key} is {about.get(key)!r}, not {mine!r}; "
                    "name another folder with `results`"
                )
        return identity

    def repeated_by(self, repeat: dict[str, Any], started: datetime.datetime, finished: int, total: int) -> None:
        """Notes in ``study.json`` what repeats the study, ``repeat``, when it read its inputs, and how many of its
        points are finished: for `stasis archive`."""
        path = self.folder / "study.json"
        about = json.loads(path.read_text(encoding="utf-8"))
        about["repeat"] = {
            **repeat,
            "started_at": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "finished": finished,
            "total": total,
        }
        write_at_once(path, (json.dumps(about, indent=1) + "\n").encode())

    def finished(self, points: Iterable[Point]) -> set[str]:
        """The keys of the points that need not be computed."""
        return {point.key for point in points if recorded(self.points / point.key) is not None}

    def keep(self, outcome: Outcome) -> None:
        """Keeps the results from a worker that does not see this folder.

        Raises `StudyError` where the results did not arrive as they were sent.
        """
        if not outcome.files:
            if recorded(self.points / outcome.key) is None:
                raise StudyError(f"the worker {outcome.worker} has written the point {outcome.key}, but it is not here")
            return
        working = self.folder / "working" / f"{outcome.key}.received"
        shutil.rmtree(working, ignore_errors=True)
        for name, content in outcome.files.items():
            (working / name).parent.mkdir(parents=True, exist_ok=True)
            (working / name).write_bytes(content)
        store(working, self.points / outcome.key)

    def record(self, key: str) -> dict[str, Any]:
        """A finished point's record.

        Raises `StudyError` where it is damaged.
        """
        record = recorded(self.points / key)
        if record is None:
            raise StudyError(f"{self.points / key / RECORD} is damaged; run the study again, it makes the point anew")
        return record

    def log(self, event: str, **more: Any) -> None:
        """Adds a line to the log."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **more})
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def study_axes(study: Grid) -> list[str]:
    """The keys that differ between the study's points."""
    points = study.values()
    return list(points[0])


def write_at_once(path: Path, content: bytes) -> None:
    """Writes a file so that nobody sees it half written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    os.replace(temporary, path)
