"""The work of a worker: it computes one point. A task is plain data, and so is its outcome."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .._columns import INCIDENTAL_FIELDS
from ..errors import ProgramError, ResultsError, StasisError, StudyError
from .digests import digest_of, digest_of_program
from .guests import bring_guest
from .jobs import placed

__all__ = ["Outcome", "Task", "Visible", "compute", "who"]

#: Files of a point that are not its results: they describe the run's surroundings.
RECORD = "point.json"
#: File that marks a part of a reproduction as complete.
COMPLETE = "complete.json"


@dataclass
class Visible:
    """The study's folder, with a means for a worker to check that it sees the folder."""

    folder: str
    #: The ``id`` in the folder's ``study.json``.
    identity: str

    def seen(self) -> Optional[Path]:
        """The folder, where it is the same one here."""
        folder = Path(self.folder)
        try:
            values = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return folder if values.get("id") == self.identity else None


@dataclass
class Task:
    """A task: all that a worker needs to compute a point."""

    key: str
    kind: str
    values: dict[str, Any]
    job: dict[str, Any]
    variables: dict[str, str]
    #: Name among the inputs: path, digest, whether it is a medium.
    inputs: dict[str, tuple[str, str, bool]]
    #: SHA-256 of the program that has to compute it.
    program: str
    study: Visible
    ios: str = "none"
    report: bool = False
    #: Each guest's folder in the cache, by its name, and the digest of its manifest.
    guests: list[tuple[str, str]] = field(default_factory=list)
    #: Whether a finished point is computed again, to compare.
    again: bool = False


@dataclass
class Outcome:
    """Outcome of a task."""

    key: str
    #: Why there are no results; empty where there are.
    failed: str = ""
    #: Time that the program ran (s).
    seconds: float = 0.0
    worker: str = ""
    #: SHA-256 of each file that repeats.
    digests: dict[str, str] = field(default_factory=dict)
    #: The files, where the worker does not see the study's folder, or was asked to compare.
    files: dict[str, bytes] = field(default_factory=dict)


def who() -> str:
    """The worker's name: its host and process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def compute(
    task: Task, contents: Optional[Mapping[str, bytes]] = None, cancel: Optional[threading.Event] = None
) -> Outcome:
    """Computes a point. ``contents`` has the files that the worker may not see, by digest; ``cancel``
    ends the program when it is set.

    A failure of the point is in the outcome: it raises no exception.
    """
    study = task.study.seen()
    if study is not None and not task.again and (known := recorded(study / "points" / task.key)):
        # Another worker computed the point, and died before it could report that.
        return Outcome(task.key, seconds=known["seconds"], worker=known["worker"], digests=known["files"])
    began = time.monotonic()
    try:
        with _own_folder(study, task.key) as folder:
            return _computed(task, folder, study, contents or {}, cancel or threading.Event())
    except (StasisError, OSError) as error:
        return Outcome(task.key, failed=str(error) or repr(error), worker=who(), seconds=time.monotonic() - began)


def recorded(folder: Path) -> Optional[dict[str, Any]]:
    """The record of a finished point, if it is one and all its files are there."""
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        whole = all((folder / name).stat().st_size == size for name, size in record["sizes"].items())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record if whole else None


@contextlib.contextmanager
def _own_folder(study: Optional[Path], key: str) -> Iterator[Path]:
    # In the study's folder where that is seen, so that results are moved, not copied.
    within = study / "working" if study is not None else None
    folder = Path(tempfile.mkdtemp(prefix=f"{key[:16]}-", dir=within))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _computed(
    task: Task, folder: Path, study: Optional[Path], contents: Mapping[str, bytes], cancel: threading.Event
) -> Outcome:
    from .._run import program

    here = program()
    if digest_of_program(here) != task.program:
        raise StudyError(
            f"the worker {who()} has another program, {version_of(here)}: install the same package there as here"
        )
    for guest in task.guests:
        bring_guest(*guest, contents)
    _bring(task, folder / "inputs", contents)
    began = time.monotonic()
    results = _run(task, here, folder, cancel)
    seconds = time.monotonic() - began
    kept = _kept(task, results)
    digests = {
        name: hashlib.sha256(_repeats(results / name)).hexdigest() for name in kept if Path(name).name != "report.html"
    }
    outcome = Outcome(task.key, seconds=seconds, worker=who(), digests=digests)
    record = {
        "key": task.key,
        "values": task.values,
        "seconds": seconds,
        "worker": outcome.worker,
        "files": digests,
        "sizes": {name: (results / name).stat().st_size for name in kept},
    }
    if task.again or study is None:
        outcome.files = {name: (results / name).read_bytes() for name in kept}
        outcome.files[RECORD] = _json(record)
        return outcome
    (results / RECORD).write_bytes(_json(record))
    store(results, study / "points" / task.key)
    return outcome


def _json(values: Any) -> bytes:
    return (json.dumps(values, sort_keys=True) + "\n").encode()


def store(folder: Path, to: Path) -> None:
    """Makes a folder the one of a finished point: at once, or not at all."""
    if to.exists() and recorded(to) is None:
        shutil.rmtree(to, ignore_errors=True)
    try:
        os.rename(folder, to)
    except OSError:
        # Somebody else has finished the point meanwhile.
        if recorded(to) is None:
            raise


def version_of(program: Path) -> str:
    """The version that a program prints."""
    try:
        done = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout.strip()


def _bring(task: Task, folder: Path, contents: Mapping[str, bytes]) -> None:
    """Puts the inputs into a folder: links to those that are seen, the contents of others, copies of media."""
    (folder / "new").mkdir(parents=True)
    for name, (path, digest, medium) in task.inputs.items():
        to = folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        source = Path(path)
        if digest in contents:
            to.write_bytes(contents[digest])
        elif not source.exists() or digest_of(source) != digest:
            raise StudyError(f"the worker {who()} does not see {path} as it is here; put it where all workers see it")
        elif medium:
            subprocess.run(["cp", "--sparse=always", "--reflink=auto", str(source), str(to)], check=True)
        else:
            to.symlink_to(source)


def _run(task: Task, program: Path, folder: Path, cancel: threading.Event) -> Path:
    """Runs the program, and returns its results' folder."""
    import tomli_w

    from .._process import run_program

    job = placed(task.job)
    results = folder / "results"
    ios = ["--ios", task.ios]
    if task.kind == "run":
        (folder / "experiment.toml").write_text(tomli_w.dumps(job), encoding="utf-8")
        words = ["run", "experiment.toml", *ios]
    elif task.kind == "reproduce":
        words = ["reproduce", *job["words"], "--only", ",".join(job["parts"])]
    else:
        words = [*simulation_words(job, folder), *ios]
    command_line = [str(program), "--quiet", *words, "--results", "results"]
    # The thread that computes may not be the main one, which alone has signals: `cancel` ends the program.
    done = run_program(command_line, cwd=folder, env=task.variables, cancel=cancel)
    if not cancel.is_set():
        done.not_interrupted()
    if done.status not in (0, 124) and _ending(results) != "exited":
        raise ProgramError(done.message(), status=done.status, command_line=command_line)
    return results


def simulation_words(job: Mapping[str, Any], folder: Path) -> list[str]:
    """The words of ``stasis sim`` for a table of its options."""
    import tomli_w

    model = job["model"]
    if isinstance(model, dict):
        (folder / "model.toml").write_text(tomli_w.dumps({"model": model}), encoding="utf-8")
        model = "model.toml"
    words = ["sim", str(model)]
    for key, value in job.items():
        if key == "workload" and "[" in value:
            (folder / "job.fio").write_text(value, encoding="utf-8")
            words += ["--workload", "job.fio"]
        elif key == "expect":
            for that in [value] if isinstance(value, str) else value:
                words += ["--expect", str(that)]
        elif key in ("exact-times", "think-times", "wrap"):
            words += [f"--{key}"] * bool(value)
        elif key != "model":
            words += [f"--{key}", str(value)]
    return words


def _ending(results: Path) -> str:
    try:
        return str(json.loads((results / "summary.json").read_bytes())["ending"])
    except (OSError, ValueError, KeyError):
        return ""


def _kept(task: Task, results: Path) -> list[str]:
    """The files of the results that the study keeps."""
    if not task.report:
        (results / "report.html").unlink(missing_ok=True)
    if task.kind != "reproduce":
        # Of a reproduction they stay: its folders are the program's own.
        (results / ".stasis-results").unlink(missing_ok=True)
    kept = sorted(str(path.relative_to(results)) for path in results.rglob("*") if path.is_file())
    needed = [f"{part}/{COMPLETE}" for part in task.job["parts"]] if task.kind == "reproduce" else ["summary.json"]
    for name in needed:
        if name not in kept:
            raise ResultsError(f"the program left no {name}")
    return kept


def _repeats(path: Path) -> bytes:
    content = path.read_bytes()
    return repeating(path.name, content)


def repeating(name: str, content: bytes) -> bytes:
    """The part of a file that repeats: all of it, or for a description of the run all but its
    surroundings."""
    if Path(name).name not in ("summary.json", COMPLETE):
        return content
    values = json.loads(content)
    return json.dumps({key: value for key, value in values.items() if key not in INCIDENTAL_FIELDS}).encode()
