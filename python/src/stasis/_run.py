"""Runs, simulations and crash tests: the program's commands as functions."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import tempfile
import threading
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar, Union

import tomli_w

from ._executable import executable
from ._paths import absolute, model_with_paths, with_paths
from ._process import Completed, run_program
from ._progress import Progress
from .errors import ExperimentError, Interrupted, ProgramError, ProgramNotFound
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


def new_folder(kind: str) -> Path:
    """A new folder for a run that names none: ``results/KIND-N``."""
    for number in itertools.count(1):
        folder = Path("results") / f"{kind}-{number}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("numbers do not end")


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


def _stamp(path: Path) -> Optional[tuple[int, int]]:
    try:
        stat = path.stat()
    except OSError:
        return None
    return (stat.st_ino, stat.st_mtime_ns)


def _result(done: Completed, results: Path, before: Optional[tuple[int, int]]) -> Result:
    """The results of a program that has ended.

    Raises its message as an exception if it has failed.
    """
    left = _stamp(results / "summary.json")
    fresh = left is not None and left != before
    summary = read_json(results / "summary.json") if fresh else {}
    kept = results if fresh else None
    if done.stopped or summary.get("ending") == "cancelled":
        raise Interrupted(
            f"the run was stopped; what it recorded is in {results}" if fresh else "the run was stopped",
            status=done.status, command_line=done.command_line, results=kept,
        )  # fmt: skip
    own = done.status in _OWN and summary.get("ending") != "exited"
    if own or not fresh or done.status < 0:
        message = done.message()
        raise ProgramError(message, status=done.status, command_line=done.command_line, results=kept)
    return Result(results, output=done.output)


@contextlib.contextmanager
def _experiment_file(experiment: Union[Experiment, AnyPath]) -> Iterator[Path]:
    """The file that the program reads."""
    if not isinstance(experiment, Experiment):
        yield Path(experiment)
        return
    base = experiment.base or Path.cwd()
    values = with_paths(experiment.to_dict(), absolute(base))
    with tempfile.TemporaryDirectory(prefix="stasis-") as folder:
        path = Path(folder) / "experiment.toml"
        path.write_text(tomli_w.dumps(values), encoding="utf-8")
        yield path


def run(
    experiment: Union[Experiment, AnyPath],
    *,
    results: Optional[AnyPath] = None,
    engine: Optional[str] = None,
    seed: Optional[int] = None,
    ios: Optional[str] = None,
    stdin: Optional[bytes] = None,
    echo: bool = False,
    progress: bool = True,
    cancel: Optional[threading.Event] = None,
) -> Result:
    """Runs an experiment, given as an `Experiment` or as a file, and returns its results.

    ``results`` is their folder; by default that of the experiment, or a new one below ``results/``.
    ``ios`` is the format of the I/Os: ``parquet`` (the default), ``csv``, ``zst`` or ``none``.
    ``stdin`` is the command's standard input; ``echo`` shows the command's output during the run. A
    command that fails is no exception: see `Result.exit_status`.

    Raises `ProgramError` with the program's message, and `Interrupted` after Ctrl-C or ``cancel``.
    """
    named = results or (experiment.results if isinstance(experiment, Experiment) else None)
    folder = Path(named) if named is not None else new_folder("run")
    before = _stamp(folder / "summary.json")
    options = {"--engine": engine, "--seed": seed, "--ios": ios}
    with _experiment_file(experiment) as path:
        words = ["run", str(path), "--results", str(folder), *_words(options)]
        done = _start(words, "booting", folder, progress=progress, cancel=cancel, echo=echo, stdin=stdin)
    return _result(done, folder, before)


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
    trace_drive: Optional[str] = None,
    scale: Optional[float] = None,
    closed: Optional[int] = None,
    exact_times: bool = False,
    wrap: bool = False,
    variables: Optional[Mapping[str, object]] = None,
    progress: bool = True,
    cancel: Optional[threading.Event] = None,
) -> Result:
    """Drives a model without a guest (docs/reference/sim.md), and returns the results.

    ``model`` is a word (``"samsung-980-pro"``), a table, or a TOML file; ``workload`` a fio job
    file, or the text of one, which has ``[`` in it; ``variables`` are those that it names as
    ``${NAME}``.

    Raises `ProgramError` with the program's message, and `Interrupted` after Ctrl-C or ``cancel``.
    """
    if (workload is None) == (trace is None):
        raise ExperimentError("a simulation has either a workload or a trace; give one of the two")
    folder = Path(results) if results is not None else new_folder("sim")
    before = _stamp(folder / "summary.json")
    options = {
        "--trace": trace, "--trace-drive": trace_drive, "--scale": scale, "--closed": closed,
        "--size": size, "--block-size": block_size, "--seed": seed, "--path": path,
        "--limit": limit, "--ios": ios, "--results": folder,
    }  # fmt: skip
    env = {name: str(value) for name, value in (variables or {}).items()}
    with tempfile.TemporaryDirectory(prefix="stasis-") as temporary:
        words = ["sim", _model_word(model, Path(temporary)), *_words(options)]
        words += ["--exact-times"] * exact_times + ["--wrap"] * wrap
        if workload is not None:
            words += ["--workload", str(_job_file(workload, Path(temporary)))]
        done = _start(words, "simulating", folder, progress=progress, cancel=cancel, env=env)
    return _result(done, folder, before)


def _model_word(model: Union[Model, AnyPath], temporary: Path) -> str:
    if not isinstance(model, Mapping):
        return str(model)
    table = model_with_paths(dict(model), absolute(Path.cwd()))
    path = temporary / "model.toml"
    path.write_text(tomli_w.dumps({"model": table}), encoding="utf-8")
    return str(path)


def _job_file(workload: AnyPath, temporary: Path) -> Path:
    if isinstance(workload, Path) or "[" not in workload:
        return Path(workload)
    path = temporary / "job.fio"
    path.write_text(workload, encoding="utf-8")
    return path


@dataclass
class CrashTest:
    """The findings of a crash test (docs/reference/power-cuts.md)."""

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
    record: Optional[AnyPath] = None,
    results: Optional[AnyPath] = None,
    check: Optional[str] = None,
    check_every: Optional[int] = None,
    check_limit: Optional[str] = None,
    strict: bool = False,
    checkers: Optional[int] = None,
    inject: Optional[str] = None,
    engine: Optional[str] = None,
    progress: bool = True,
    cancel: Optional[threading.Event] = None,
) -> CrashTest:
    """Cuts the power of a run's drives many times, and checks the drives after each cut.

    ``check_limit`` is the longest that a check may take (``"5min"``); with ``strict``, a flush covers
    nothing that was in flight when it was submitted.

    Raises `ProgramError` with the program's message, and `Interrupted` after Ctrl-C or ``cancel``.
    """
    named = results or (experiment.results if isinstance(experiment, Experiment) else None)
    folder = Path(named) if named is not None else new_folder("crash-test")
    options = {
        "--states": states, "--state": state, "--seed": seed, "--record": record,
        "--results": folder, "--check": check, "--check-every": check_every,
        "--check-limit": check_limit, "--checkers": checkers, "--inject": inject, "--engine": engine,
    }  # fmt: skip
    with _experiment_file(experiment) as path:
        words = ["crash-test", str(path), "--json", *_words(options), *["--strict"] * strict]
        done = _start(words, "booting", folder, progress=progress, cancel=cancel)
    if done.stopped:
        raise Interrupted("the crash test was stopped", status=done.status, command_line=done.command_line)
    if done.status not in (0, 1):
        raise ProgramError(done.message(), status=done.status, command_line=done.command_line)
    try:
        summary = json.loads(done.output)
    except ValueError:
        summary = read_json(folder / "crash-test.json")
    return CrashTest(folder=folder, summary=summary, found=done.status == 1)


def _asynchronous(function: Callable[..., T]) -> Callable[..., Awaitable[T]]:
    """The same to be awaited; cancelled, it ends the run and waits for its end."""

    @functools.wraps(function)
    async def awaited(*arguments: Any, **options: Any) -> T:
        cancel = threading.Event()
        call = functools.partial(function, *arguments, cancel=cancel, **options)
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
