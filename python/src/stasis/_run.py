"""Runs, simulations and crash tests: the program's commands as functions."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import re
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

import tomli_w

from ._executable import executable
from ._paths import absolute, model_with_paths, with_paths
from ._process import Completed, run_program
from ._progress import Progress
from .errors import ExperimentError, Interrupted, ProgramError, ProgramNotFound, ResultsError
from .experiment import Experiment, Model, Size
from .result import Result, read_json

__all__ = [
    "CrashTest",
    "crash_test",
    "crash_test_async",
    "run",
    "run_async",
    "simulate",
    "simulate_async",
]

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")

AnyPath = Union[str, Path]
T = TypeVar("T")

#: Statuses that are the program's own, unless the command itself ended with them.
_OWN = (2, 125, 126, 127)


def program() -> Path:
    """The program that runs are made with.

    Raises ``ProgramNotFound``.
    """
    try:
        return executable()
    except FileNotFoundError as error:
        raise ProgramNotFound(str(error)) from error


def _stamp(path: Path) -> Optional[tuple[int, int]]:
    try:
        stat = path.stat()
    except OSError:
        return None
    return (stat.st_ino, stat.st_mtime_ns)


#: First line of an input that this package has written, which it may write again.
_OURS = "# Written by the Python package of Stasis: "


class Place:
    """The folder of a call's results. A call that fails and keeps no results leaves none."""

    def __init__(self, named: Optional[AnyPath], kind: str) -> None:
        #: Folders that the call makes, the outermost first.
        self._new: list[Path] = []
        #: Inputs that this package has written, and what a message calls them afterwards.
        self._inputs: dict[Path, str] = {}
        self.folder = Path(named) if named is not None else self._numbered(kind)
        self._stamp = _stamp(self.folder / "summary.json")

    def _numbered(self, kind: str) -> Path:
        """A new folder for a run that names none: ``results/KIND-N``."""
        for number in itertools.count(1):
            folder = Path("results") / f"{kind}-{number}"
            with contextlib.suppress(FileExistsError):
                self._make(folder)
                return folder
        raise AssertionError("numbers do not end")

    def _make(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True)
        self._new += reversed(missing)

    def write(self, name: str, text: str, what: str) -> Path:
        """Writes an input that has no file of its own beside the results, so that a report and the
        command line that repeats the run name a file that is there.

        Raises ``ResultsError`` where it cannot be written.
        """
        stem, dot, suffix = name.rpartition(".")
        try:
            if not self.folder.exists():
                self._make(self.folder)
            for number in itertools.count(1):
                path = self.folder / (name if number == 1 else f"{stem}-{number}{dot}{suffix}")
                # A file of the user's stays.
                is_new = not path.exists()
                if is_new or path.read_bytes().startswith(_OURS.encode()):
                    break
            path.write_text(f"{_OURS}it is what the run beside it was given\n{text}", encoding="utf-8")
        except OSError as error:
            self.leave()
            raise ResultsError(
                f"cannot write {name} to {self.folder}: {error.strerror}; name another folder"
            ) from error
        if is_new:
            self._inputs[path] = f"<{what}>"
        return path

    def fresh_summary(self) -> dict[str, Any]:
        """The summary that the call has left; empty where it has left none."""
        path = self.folder / "summary.json"
        left = _stamp(path)
        return read_json(path) if left is not None and left != self._stamp else {}

    def leave(self, message: str = "") -> str:
        """Removes what the call has made where that is all there is. Returns the message, in which an
        input that is gone has another name."""
        made = [*self._inputs, *self._new]
        found = list(self.folder.rglob("*")) if self.folder.is_dir() else []
        if self.folder in self._new and not set(found) <= set(made):
            return message
        for path, name in self._inputs.items():
            # A message that shows the line has it by its number.
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() and "\n" not in message else []
            renamed = functools.partial(_renamed, name, lines)
            message = (
                re.sub(rf"{re.escape(str(path))}(?:: line (\d+))?", renamed, message)
                if lines
                else message.replace(str(path), name)
            )
            path.unlink(missing_ok=True)
        for folder in reversed(self._new):
            with contextlib.suppress(OSError):
                folder.rmdir()
        return message

    @contextlib.contextmanager
    def kept_or_left(self) -> Iterator[None]:
        """Leaves nothing behind after an error without results."""
        try:
            yield
        except ProgramError as error:
            if error.results is None:
                error.args = (self.leave(str(error)),)
            raise
        except BaseException:
            self.leave()
            raise


#: Interval of the program's progress lines (s): short enough for a smooth bar.
INTERVAL = {"STASIS_PROGRESS_INTERVAL": "0.5"}


def _start(
    words: Sequence[str],
    what: str,
    results: Optional[Path],
    *,
    progress: bool,
    cancel: Optional[threading.Event],
    echo: bool = False,
    stdin: Optional[bytes] = None,
    env: Optional[Mapping[str, str]] = None,
) -> Completed:
    command_line = [str(program()), *words]
    with contextlib.ExitStack() as stack:
        shown = None
        if progress:
            shown = stack.enter_context(Progress(what, results))
            env = {**INTERVAL, **(env or {})}
        else:
            command_line.insert(1, "--quiet")
        return run_program(command_line, progress=shown, cancel=cancel, echo=echo, stdin=stdin, env=env)


def _result(done: Completed, place: Place) -> Result:
    """The results of a program that has ended.

    Raises its message as an exception if it has failed.
    """
    results, summary = place.folder, place.fresh_summary()
    kept = results if summary else None
    if done.stopped or summary.get("ending") == "cancelled":
        raise Interrupted(
            f"the run was stopped; what it recorded is in {results}" if summary else "the run was stopped",
            status=done.status, command_line=done.command_line, results=kept,
        )  # fmt: skip
    own = done.status in _OWN and summary.get("ending") != "exited"
    if own or not summary or done.status < 0:
        message = done.message()
        raise ProgramError(message, status=done.status, command_line=done.command_line, results=kept)
    return Result(results, output=done.output)


def _renamed(name: str, lines: Sequence[str], found: re.Match[str]) -> str:
    """An input that is gone, in a message, with the line that the message is about. The file's first line
    is not the user's."""
    number = int(found[1] or 0)
    return f"{name}: line {number - 1} (`{lines[number - 1].strip()}`)" if 1 < number <= len(lines) else name


def _experiment_file(experiment: Union[Experiment, AnyPath], place: Place) -> Path:
    """The file that the program reads: of an `Experiment`, one beside the results."""
    if not isinstance(experiment, Experiment):
        return Path(experiment)
    base = experiment.base or Path.cwd()
    values = with_paths(experiment.to_dict(), absolute(base))
    return place.write("experiment.toml", tomli_w.dumps(values), "experiment")


def run(
    experiment: Union[Experiment, AnyPath],
    *,
    results: Optional[AnyPath] = None,
    engine: Optional[str] = None,
    seed: Optional[int] = None,
    ios: Optional[str] = None,
    timeline: bool = False,
    stdin: Optional[bytes] = None,
    echo: bool = False,
    progress: bool = True,
    cancel: Optional[threading.Event] = None,
) -> Result:
    """Runs an experiment and returns its results.

    ``experiment``: an `Experiment`, or an experiment file. Of an `Experiment`, the file is written
    as ``experiment.toml`` beside the results.
    ``results``: their folder; by default that of the experiment, or a new one below ``results/``.
    ``engine``: ``auto``, ``kvm``, ``softkvm`` or ``exact``; by default the experiment's.
    ``seed``: of everything random, 0 to 2^64 - 1; by default the experiment's.
    ``ios``: form of the I/Os: ``parquet`` (the default), ``csv``, ``zst`` or ``none``.
    ``timeline``: whether `Result.timeline` is kept.
    ``stdin``: the command's standard input, at most 64 MiB.
    ``echo``: whether the command's output is shown during the run.
    ``progress``: whether a bar is shown.
    ``cancel``: ends the run when it is set, as Ctrl-C does.

    A command that fails is no exception: see `Result.exit_status`.

    Raises `ProgramError` with the program's message, and `Interrupted` after Ctrl-C or ``cancel``.
    """
    named = results or (experiment.results if isinstance(experiment, Experiment) else None)
    place = Place(named, "run")
    options = {"--engine": engine, "--seed": seed, "--ios": ios}
    with place.kept_or_left():
        path = _experiment_file(experiment, place)
        words = ["run", str(path), "--results", str(place.folder), *_words(options), *["--timeline"] * timeline]
        done = _start(words, "booting", place.folder, progress=progress, cancel=cancel, echo=echo, stdin=stdin)
        return _result(done, place)


def _words(options: Mapping[str, Any]) -> list[str]:
    return [word for name, value in options.items() if value is not None for word in (name, str(value))]


def simulate(
    model: Union[Model, AnyPath],
    *,
    workload: Optional[AnyPath] = None,
    trace: Optional[AnyPath] = None,
    results: Optional[AnyPath] = None,
    size: Optional[Size] = None,
    block_size: Optional[int] = None,
    seed: Optional[int] = None,
    path: Optional[str] = None,
    limit: Optional[str] = None,
    ios: Optional[str] = None,
    timeline: bool = False,
    trace_drive: Optional[str] = None,
    scale: Optional[float] = None,
    closed: Optional[int] = None,
    exact_times: bool = False,
    think_times: bool = False,
    wrap: bool = False,
    variables: Optional[Mapping[str, object]] = None,
    progress: bool = True,
    cancel: Optional[threading.Event] = None,
) -> Result:
    """Drives a model without a guest, and returns the results, as ``stasis sim`` does.

    ``model``: a name (`models` lists them), a word (``"fixed:100us"``), a table, or a TOML file.
    ``workload``: a fio job file, or the text of one, which has ``[`` in it.
    ``trace``: in place of ``workload``, the I/Os of a run (its folder or file), or a trace's file.
    ``results``: folder of the results; by default a new one below ``results/``. Of a model or a job
    that has no file, one is written there.
    ``size``: of the drive, bytes or a text (``"1TiB"``); by default the model's own, or what the
    load needs. ``block_size``: 512 (the default) or 4096.
    ``seed``: of everything random, 0 to 2^64 - 1 (default 0).
    ``path``: time that software adds to each I/O of a thread (``"4us"``). ``limit``: of virtual
    time (``"10s"``); the exit status is 124 where it is reached.
    ``ios``: form of the I/Os: ``parquet`` (the default), ``csv``, ``zst`` or ``none``.
    ``timeline``: whether `Result.timeline` is kept.
    ``trace_drive``: the drive to replay, of a trace of several. ``scale``: factor by which the
    trace's times are stretched (default 1). ``closed``: number of I/Os in flight, in place of the
    trace's times. ``exact_times``: whether a run's I/Os come at their very times, its boot
    included. ``think_times``: whether each I/O follows the completions that it followed in the
    trace, as long after them. ``wrap``: whether I/Os beyond the drive are taken modulo its size.
    ``variables``: those that the job file names as ``${NAME}``.
    ``progress``: whether a bar is shown. ``cancel``: ends the simulation when it is set.

    Raises `ExperimentError` unless there is either a workload or a trace, `ProgramError` with the
    program's message, and `Interrupted` after Ctrl-C or ``cancel``.
    """
    if (workload is None) == (trace is None):
        raise ExperimentError("a simulation has either a workload or a trace; give one of the two")
    place = Place(results, "sim")
    options = {
        "--trace": trace, "--trace-drive": trace_drive, "--scale": scale, "--closed": closed,
        "--size": size, "--block-size": block_size, "--seed": seed, "--path": path,
        "--limit": limit, "--ios": ios, "--results": place.folder,
    }  # fmt: skip
    env = {name: str(value) for name, value in (variables or {}).items()}
    with place.kept_or_left():
        words = ["sim", _model_word(model, place), *_words(options)]
        words += ["--think-times"] * think_times
        words += ["--exact-times"] * exact_times + ["--wrap"] * wrap + ["--timeline"] * timeline
        if workload is not None:
            words += ["--workload", str(_job_file(workload, place))]
        done = _start(words, "simulating", place.folder, progress=progress, cancel=cancel, env=env)
        return _result(done, place)


def _model_word(model: Union[Model, AnyPath], place: Place) -> str:
    if not isinstance(model, Mapping):
        return str(model)
    table = model_with_paths(dict(model), absolute(Path.cwd()))
    return str(place.write("model.toml", tomli_w.dumps({"model": table}), "model"))


def _job_file(workload: AnyPath, place: Place) -> Path:
    if isinstance(workload, Path) or "[" not in workload:
        return Path(workload)
    return place.write("job.fio", workload, "workload")


@dataclass
class CrashTest:
    """The findings of a crash test."""

    #: The results folder: the record, ``crash-test.json``, ``crash-test.html``.
    folder: Path
    #: ``crash-test.json``.
    summary: dict[str, Any]
    #: Whether something was found.
    found: bool

    @property
    def report(self) -> Path:
        """``crash-test.html``, a self-contained page."""
        return self.folder / "crash-test.html"

    def _repr_html_(self) -> str:
        from . import plots

        rows = [(key, value) for key, value in self.summary.items() if not isinstance(value, (dict, list))]
        return plots.html_table(["crash test", "something was found" if self.found else "nothing was found"], rows)


def crash_test(
    experiment: Union[Experiment, AnyPath],
    *,
    states: Optional[int] = None,
    state: Optional[int] = None,
    seed: Optional[int] = None,
    trace: Optional[AnyPath] = None,
    log_writes: Optional[AnyPath] = None,
    base: Optional[AnyPath] = None,
    results: Optional[AnyPath] = None,
    check: Optional[str] = None,
    check_every: Optional[int] = None,
    check_limit: Optional[str] = None,
    strict: bool = False,
    checkers: Optional[int] = None,
    inject: Optional[str] = None,
    keep_disk: bool = False,
    engine: Optional[str] = None,
    progress: bool = True,
    cancel: Optional[threading.Event] = None,
) -> CrashTest:
    """Cuts the power of a run's drives many times, and checks the drives after each cut,
    as ``stasis crash-test`` does.

    ``experiment``: an `Experiment`, or an experiment file. Of an `Experiment`, the file is written
    as ``experiment.toml`` beside the results.
    ``states``: number of power cuts, at least (default 1000). ``state``: only the one with this
    number. ``seed``: of the power cuts (default 0).
    ``trace``: folder of an earlier test, whose trace is used in place of a run.
    ``log_writes``: log of Linux's dm-log-writes, of the experiment's one drive, which is used in place
    of a run. ``base``: the disk as it was before the log, a raw image; by default the drive's medium.
    ``results``: folder of the results; by default the experiment's, or a new one below ``results/``.
    ``check``: shell command that checks each state in a guest; by default the experiment's.
    ``check_every``: runs the check on one of so many states (default 1). ``check_limit``: the
    longest that a check may take (``"5min"``).
    ``strict``: whether a flush covers nothing that was in flight when it was submitted.
    ``checkers``: number of guests that check at a time; by default one for each processor.
    ``inject``: a fault below the guest, to test the test: ``dropped-barrier``,
    ``early-acknowledgement`` or ``swapped-tables``.
    ``keep_disk``: leaves the disks of ``state``, or else of the first finding, as raw files;
    ``summary["disks"]`` names them.
    ``engine``: ``auto``, ``kvm``, ``softkvm`` or ``exact``.
    ``progress``: whether a bar is shown. ``cancel``: ends the test when it is set.

    Raises `ProgramError` with the program's message, and `Interrupted` after Ctrl-C or ``cancel``.
    """
    named = results or (experiment.results if isinstance(experiment, Experiment) else None)
    place = Place(named, "crash-test")
    options = {
        "--states": states, "--state": state, "--seed": seed, "--trace": trace,
        "--log-writes": log_writes, "--base": base,
        "--results": place.folder, "--check": check, "--check-every": check_every,
        "--check-limit": check_limit, "--checkers": checkers, "--inject": inject, "--engine": engine,
    }  # fmt: skip
    with place.kept_or_left():
        path = _experiment_file(experiment, place)
        words = ["crash-test", str(path), "--json", *_words(options), *["--strict"] * strict]
        words += ["--keep-disk"] * keep_disk
        done = _start(words, "booting", place.folder, progress=progress, cancel=cancel)
        if done.stopped:
            raise Interrupted("the crash test was stopped", status=done.status, command_line=done.command_line)
        if done.status not in (0, 1):
            raise ProgramError(done.message(), status=done.status, command_line=done.command_line)
        try:
            summary = json.loads(done.output)
        except ValueError:
            summary = read_json(place.folder / "crash-test.json")
        return CrashTest(folder=place.folder, summary=summary, found=done.status == 1)


def _asynchronous(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same to be awaited; cancelled, it ends the run and waits for its end."""

    @functools.wraps(function)
    async def awaited(*arguments: P.args, **options: P.kwargs) -> T:
        given = options.pop("cancel", None)
        cancel = given if isinstance(given, threading.Event) else threading.Event()
        call = functools.partial(function, *arguments, cancel=cancel, **options)  # type: ignore[arg-type]
        loop = asyncio.get_running_loop()
        # A separate thread, not one of a pool that limits the number of concurrent runs.
        future: asyncio.Future[T] = loop.create_future()

        def done(result: Optional[T], error: Optional[BaseException]) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def work() -> None:
            try:
                result, error = call(), None
            except BaseException as raised:
                result, error = None, raised
            loop.call_soon_threadsafe(done, result, error)

        thread = threading.Thread(target=work, name="stasis", daemon=True)
        thread.start()
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            cancel.set()
            with contextlib.suppress(ProgramError):
                await future
            raise

    return awaited


run_async = _asynchronous(run)
simulate_async = _asynchronous(simulate)
crash_test_async = _asynchronous(crash_test)
