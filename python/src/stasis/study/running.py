"""Runs the unfinished points of a study, on the available workers."""

from __future__ import annotations

import concurrent.futures
import datetime
import hashlib
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

from .._progress import bar
from .._run import program as the_program
from ..errors import StudyError
from .dataset import write_dataset
from .definition import Study
from .digests import digest_of_program
from .folder import Grid, StudyFolder, write_at_once
from .guests import packed
from .outcome import Failure, StudyResult
from .page import page_of
from .points import Point, points_with_keys, stays_within
from .pools import DaskPool, Pool, pool_of
from .preflight import check_keys
from .task import Outcome, Task, Visible, repeating
from .versions import check_workers

__all__ = ["Running", "sweep"]

#: Inputs up to this size go to an executor's workers with each task (bytes).
SMALL = 1 << 20


def sweep(
    study: Union[Study, str, Path],
    *,
    on: Union[str, concurrent.futures.Executor, Any, None] = None,
    workers: Optional[int] = None,
    verify: int = 0,
    results: Union[str, Path, None] = None,
    progress: Optional[bool] = None,
    within: Union[str, Path, None] = None,
) -> StudyResult:
    """Computes each point of a study that is not finished, and returns all results together.

    ``study``: a `Study`, or its file.
    ``on``: the workers: by default this machine's, one program for each core, which needs no Dask;
    ``"tcp://HOST:PORT"`` of a Dask scheduler; ``"slurm"``; a `concurrent.futures.Executor`; or a
    client of Dask's.
    ``workers``: their number; by default as many as there are, or as memory suffices for.
    ``verify``: number of points that are computed again and compared, byte for byte; on a cluster
    by another worker than before.
    ``results``: folder of the results; by default the study's.
    ``progress``: whether a bar is shown; by default on a terminal and in a notebook.
    ``within``: a folder outside of which the study may read nothing, for one by somebody else.

    Points that fail are in the result and do not stop others. After an interruption, the same call
    continues.

    Raises `StudyError` for a study that cannot be run as it is written, or not there.
    """
    study = study if isinstance(study, Study) else Study.read(study)
    if results is not None:
        study.results = results
    program = the_program()
    if within is not None:
        stays_within(study, Path(within))
    study.contradictions(study.values()[0])
    points = points_with_keys(study, program)
    check_keys(study, program, points)
    folder = StudyFolder(study.folder, study)
    with folder.opened() as visible:
        run = Running(study, points, folder, visible, digest_of_program(program), progress)
        run.repeated_by(study)
        return run.through(on, workers, verify)


class Running:
    """One call of `sweep` or `reproduce`."""

    #: Type of the result.
    RESULT = StudyResult

    def __init__(
        self,
        study: Grid,
        points: Sequence[Point],
        folder: StudyFolder,
        visible: Visible,
        program: str,
        progress: Optional[bool],
    ) -> None:
        self._study = study
        self._points = {point.key: point for point in points}
        self._folder = folder
        self._visible = visible
        self._program = program
        self._progress = progress
        #: Inputs are read from here on.
        self._started = datetime.datetime.now(datetime.timezone.utc)
        self._result = self.RESULT(
            name=study.name,
            folder=folder.folder,
            axes=list(points[0].values),
            total=len(points),
            finished=[],
        )

    def repeated_by(self, study: Study) -> None:
        """Notes the command that repeats the study, with the hashes of all files that it reads."""
        files = study.files or self._written(study)
        if not files:
            return
        described = [(str(path), path.read_bytes()) for path in files]
        listed = [(path, len(text), hashlib.sha256(text).hexdigest()) for path, text in described]
        read = {each.path: each for point in self._points.values() for each in point.inputs}
        listed += [(each.path, each.size, each.digest) for each in read.values()]
        first = str(files[0]) if study.files else os.path.relpath(files[0])
        self._result.repeat = {
            "command": f"stasis sweep {shlex.quote(first)} --results again",
            "inputs": [
                {"path": os.path.relpath(path), "bytes": size, "sha256": digest} for path, size, digest in listed
            ],
        }

    def _written(self, study: Study) -> list[Path]:
        """The file in the study's folder that describes one that was made in Python; none where it cannot."""
        path = self._folder.folder / "study.toml"
        try:
            text = study.written(self._folder.folder).encode()
        except StudyError:
            return []
        if not path.exists() or path.read_bytes() != text:
            write_at_once(path, text)
        return [path]

    def through(self, on: Any, workers: Optional[int], verify: int) -> StudyResult:
        finished = self._folder.finished(self._points.values())
        rest = [point for point in self._points.values() if point.key not in finished]
        self._folder.log("begin", points=len(self._points), finished=len(finished), program=self._program)
        if rest or verify:
            memory = max(point.memory for point in self._points.values())
            with pool_of(on, workers=workers, memory=memory) as pool:
                self._compute(pool, rest, len(finished))
                self._verify(pool, verify)
        return self._together()

    def _compute(self, pool: Pool, rest: Sequence[Point], finished: int) -> None:
        contents = self._contents(pool, rest)
        self._result.workers = pool.workers()
        began = time.monotonic()
        # Those whose wall-clock time counts come last, one after another.
        batches = [[point for point in rest if not point.alone], *([point] for point in rest if point.alone)]
        with self._bar(len(self._points), finished, "points") as shown:
            for batch in filter(None, batches):
                for outcome in pool.run([self._task(point) for point in batch], contents):
                    self._came(outcome)
                    shown.set_postfix_str(f"{len(self._result.failures)} failed", refresh=False)
                    shown.update()
        self._result.elapsed = time.monotonic() - began

    def _came(self, outcome: Outcome) -> None:
        point = self._points[outcome.key]
        if not outcome.failed:
            try:
                self._folder.keep(outcome)
            except (StudyError, OSError) as error:
                outcome.failed = str(error)
        about = {"key": outcome.key, "seconds": round(outcome.seconds, 6), "worker": outcome.worker}
        if outcome.failed:
            self._result.failures.append(Failure(point.label(), outcome.key, outcome.failed))
            self._folder.log("failed", **about, point=point.values, message=outcome.failed)
            return
        self._result.computed += 1
        self._result.own_seconds += outcome.seconds
        self._folder.log("finished", **about, point=point.values)

    def _verify(self, pool: Pool, count: int) -> None:
        """Computes some points again, each on another worker than the one that had it."""
        # Figures of wall-clock time do not repeat.
        repeats = [point for point in self._points.values() if not point.alone]
        known = sorted(self._folder.finished(repeats))
        # Spread over the study, and the same ones for the same study.
        chosen = sorted(known, key=lambda key: hashlib.sha256(key.encode()).digest())[:count]
        if not chosen:
            return
        points = [self._points[key] for key in chosen]
        tasks = [self._task(point, again=True) for point in points]
        avoid = {key: str(self._folder.record(key)["worker"]) for key in chosen}
        contents = self._contents(pool, points)
        with self._bar(len(chosen), 0, "compared") as shown:
            for outcome in pool.run(tasks, contents, avoid):
                self._compared(outcome, avoid[outcome.key])
                shown.update()

    def _compared(self, outcome: Outcome, before: str) -> None:
        point = self._points[outcome.key]
        self._result.verified += 1
        message = outcome.failed or self._difference(outcome)
        if message:
            self._result.differences.append(Failure(point.label(), outcome.key, message))
        self._folder.log(
            "differs" if message else "repeats",
            key=outcome.key, point=point.values, message=message, worker=outcome.worker, before=before,
        )  # fmt: skip

    def _difference(self, outcome: Outcome) -> str:
        """Describes the difference of a point's files from those before; empty if there is none."""
        record = self._folder.record(outcome.key)
        for name in sorted(set(record["files"]) | set(outcome.digests)):
            if name not in outcome.digests or name not in record["files"]:
                return f"{name} was left by only one of the two"
            kept = (self._folder.points / outcome.key / name).read_bytes()
            one, other = repeating(name, kept), repeating(name, outcome.files[name])
            if one != other:
                place = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
                return f"{name} differs from byte {place:,} on"
        return ""

    def _task(self, point: Point, again: bool = False) -> Task:
        return Task(
            key=point.key,
            kind=self._study.kind,
            values=point.values,
            job=point.job,
            variables=point.variables,
            inputs={each.name: (each.path, each.digest, each.medium) for each in point.inputs},
            program=self._program,
            study=self._visible,
            ios=self._study.ios,
            report=self._study.report,
            guests=[(each.folder.name, each.digest) for each in point.guests],
            again=again,
        )

    def _contents(self, pool: Pool, points: Sequence[Point]) -> Mapping[str, bytes]:
        """Files that workers do not see, by digest."""
        if not points:
            return {}
        guests = {each.digest: each for point in points for each in point.guests}
        seen, without = check_workers(pool, self._program, self._visible, list(guests.values()))
        contents = {digest: packed(guests[digest]) for digest in without}
        if seen and isinstance(pool, DaskPool):
            return contents
        for each in (each for point in points for each in point.inputs):
            sent = isinstance(pool, DaskPool) or each.size <= SMALL
            if sent and each.digest not in contents and Path(each.path).is_file():
                contents[each.digest] = Path(each.path).read_bytes()
        return contents

    def _together(self) -> StudyResult:
        result = self._result
        done = self._folder.finished(self._points.values())
        result.finished = [point for point in self._points.values() if point.key in done]
        self._write()
        if result.repeat is not None:
            self._folder.repeated_by(result.repeat, self._started, len(done), result.total)
        busy = result.own_seconds / (result.workers * result.elapsed) if result.elapsed else 0.0
        self._folder.log(
            "end",
            finished=len(done), failed=len(result.failures), computed=result.computed,
            verified=result.verified, differ=len(result.differences), elapsed=round(result.elapsed, 3),
            own_seconds=round(result.own_seconds, 3), workers=result.workers, busy=round(busy, 4),
        )  # fmt: skip
        return result

    def _write(self) -> None:
        """Writes the data sets and the report."""
        if self._result.finished:
            write_dataset(self._folder.folder, self._result.finished, self._study.ios != "none")
        write_at_once(self._result.report, page_of(self._result).encode())

    def _bar(self, total: int, initial: int, unit: str) -> Any:
        # `None`: only on a terminal and in a notebook.
        disable = None if self._progress is None else not self._progress
        return bar(total=total, initial=initial, unit=f" {unit}", desc=self._study.name, disable=disable)
