"""How runs are stopped, and what is shown while they go on."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

import stasis
from stasis import _process, _schema, pages
from stasis._process import run_program
from stasis._progress import Progress

#: A simulation that ends when it is stopped.
ENDLESS = "[r]\nrw=randread\nbs=4k\nsize=256m\ntime_based=1\nruntime=100d\n"

#: A hangup ends the program, also where these tests run under nohup.
CALL = """\
import signal, stasis, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
try:
    for model in ["jpt39c", "null"]:
        try:
            stasis.simulate(model, workload={job!r}, results="r", ios="none", progress=False)
        except Exception as error:
            print("the loop goes on after", error)
except KeyboardInterrupt as error:
    print(type(error).__name__, error.status, error.results)
    sys.exit(7)
"""


def running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        # A zombie has ended.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


@pytest.fixture
def simulating(here: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A Python program that simulates without an end, and the process of its simulation."""
    process = subprocess.Popen(
        [sys.executable, "-c", CALL.format(job=ENDLESS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: (here / "r" / ".stasis-results").exists())
    (child,) = children(process.pid)
    yield process, child
    for pid in (process.pid, child):
        if running(pid):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def test_ctrl_c_ends_the_run_and_keeps_its_results(simulating: tuple[subprocess.Popen[str], int]) -> None:
    process, child = simulating
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output.split()) == (7, ["Interrupted", "130", "r"]), errors
    assert not running(child)
    assert stasis.Result("r").ending == "cancelled"


#: Each function that starts the program and waits for it.
CALLS: dict[str, Callable[[], object]] = {
    "run": lambda: stasis.run("experiment.toml", results="r", progress=False),
    "simulate": lambda: stasis.simulate("null", workload="job.fio", results="r", progress=False),
    "crash_test": lambda: stasis.crash_test("experiment.toml", results="r", progress=False),
    "models": stasis.models,
    "model": lambda: stasis.model("jpt39c"),
    "schema": lambda: _schema._schema.__wrapped__(),
    "page": lambda: pages.drawn(lambda _level: pages.Page("title")),
    "reproduce": lambda: stasis.study.reproduction.Reproduction.listed("femu", []),
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_is_no_error_of_any_call(name: str, fake: Callable[[str], Path], here: Path) -> None:
    (here / "experiment.toml").touch()
    # As the terminal does it to the program, and the test to itself.
    program = fake(f"trap 'exit 130' INT; kill -INT {os.getpid()}; while :; do sleep 0.05; done")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stasis.study.reproduction.the_program", lambda: program)
        with pytest.raises(KeyboardInterrupt) as stopped:
            CALLS[name]()
    assert not isinstance(stopped.value, Exception)
    assert isinstance(stopped.value, stasis.Interrupted)
    sent = pickle.loads(pickle.dumps(stopped.value))
    assert (str(sent), sent.status, sent.results) == (str(stopped.value), 130, None)


def test_ctrl_c_while_the_program_begins_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started = _process._started

    def interrupted(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        os.kill(os.getpid(), signal.SIGINT)
        return started(*words, **options)

    monkeypatch.setattr(_process, "_started", interrupted)
    done = _process.run_program(["sleep", "60"])
    assert (done.stopped, done.status) == (True, -signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler

    def interrupted_in_vain(*_words: Any, **_options: Any) -> subprocess.Popen[bytes]:
        os.kill(os.getpid(), signal.SIGINT)
        raise FileNotFoundError

    monkeypatch.setattr(_process, "_started", interrupted_in_vain)
    with pytest.raises(KeyboardInterrupt):
        _process.run_program(["sleep", "60"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_python_ends_the_run_first(simulating: tuple[subprocess.Popen[str], int], number: int) -> None:
    process, child = simulating
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    assert not running(child)
    assert stasis.Result("r").ending == "cancelled"


def test_a_run_does_not_outlive_a_python_that_was_killed(simulating: tuple[subprocess.Popen[str], int]) -> None:
    process, child = simulating
    process.kill()
    until(lambda: not running(child))


def test_a_run_that_is_awaited_can_be_cancelled(here: Path) -> None:
    # A study on Dask in an earlier test leaves multiprocessing's resource tracker, which lives as long as Python.
    before = set(children(os.getpid()))

    async def cancelled() -> None:
        call = stasis.simulate_async("jpt39c", workload=ENDLESS, results="r", ios="none", progress=False)
        task = asyncio.ensure_future(call)
        while not Path("r/.stasis-results").exists():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert set(children(os.getpid())) <= before
    assert stasis.Result("r").ending == "cancelled"


def test_a_run_that_is_awaited_ends_by_its_event(here: Path) -> None:
    async def ended() -> str:
        cancel = threading.Event()
        call = stasis.simulate_async(
            "jpt39c", workload=ENDLESS, results="r", ios="none", progress=False, cancel=cancel
        )  # fmt: skip
        task = asyncio.ensure_future(call)
        while not Path("r/.stasis-results").exists():
            await asyncio.sleep(0.02)
        cancel.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return "the loop goes on"

    assert asyncio.run(ended()) == "the loop goes on"
    assert stasis.Result("r").ending == "cancelled"


def test_a_program_that_does_not_stop_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stasis._process.GRACE", 0.2)
    cancel = threading.Event()
    pids = tmp_path / "pids"
    script = f"trap '' INT; sleep 1000 & echo $! > {pids}; wait; wait; sleep 1000"
    threading.Thread(target=lambda: (until(lambda: pids.exists() and pids.read_text()), cancel.set())).start()
    done = run_program(["sh", "-c", script], cancel=cancel)
    assert done.stopped
    assert done.status == -signal.SIGKILL
    until(lambda: not running(int(pids.read_text())))


def test_progress_is_shown_and_is_no_part_of_a_message(
    fake: Callable[[str], Path], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[tuple[str, int | None]] = []
    fake(
        "echo 'progress: booting, 12 s so far' >&2\n"
        "echo 'progress: 139 of 1,300 power cuts, 12 a second, 10 %, 1 min 3 s left' >&2\n"
        "echo 'stasis: it is wrong' >&2\nexit 125\n"
    )

    class Told(Progress):
        def say(self, what: str, percent: int | None) -> None:
            said.append((what, percent))
            super().say(what, percent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stasis._run.Progress", Told)
        with pytest.raises(stasis.ProgramError, match=r"^it is wrong$"):
            stasis.simulate("null", workload="job.fio")
    assert said == [("booting, 12 s so far", None), ("139 of 1,300 power cuts, 12 a second", 10)]
    # The bar has been there.
    assert "simulating" in capsys.readouterr().err


def test_a_large_input_and_output_do_not_block_each_other() -> None:
    text = os.urandom(1 << 22)
    done = run_program(["sh", "-c", "cat | od -An -tx1 -v | wc -c; echo e >&2"], stdin=text)
    assert int(done.output) == (1 << 22) * 3 + (1 << 22) // 16
    assert done.errors == "e\n"


def test_a_crash_test_is_asked_for_as_its_arguments_say(fake: Callable[[str], Path], here: Path) -> None:
    fake('printf "%s\\n" "$@" >words; echo "{}"\n')
    (here / "crash.toml").touch()
    stasis.crash_test("crash.toml", states=3, check_limit="5min", strict=True, results="r")
    words = Path("words").read_text().split("\n")
    assert words[words.index("--check-limit") + 1] == "5min"
    assert "--strict" in words
    stasis.crash_test("crash.toml", log_writes="log", base="disk.img", results="r")
    words = Path("words").read_text().split("\n")
    assert [words[words.index(name) + 1] for name in ("--log-writes", "--base")] == ["log", "disk.img"]
    stasis.crash_test("crash.toml", results="r")
    words = Path("words").read_text().split("\n")
    assert "--log-writes" not in words
    assert "--check-limit" not in words
    assert "--strict" not in words


def test_output_is_echoed_where_that_is_asked(fake: Callable[[str], Path], here: Path) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        done = run_program(["echo", "hello"], echo=True)
    assert done.output == shown.getvalue() == "hello\n"


def test_a_program_that_says_nothing_is_told_of_by_its_status(fake: Callable[[str], Path], here: Path) -> None:
    fake("exit 125")
    with pytest.raises(stasis.ProgramError, match="status 125 and said nothing"):
        stasis.simulate("null", workload="job.fio", progress=False)
    fake("kill -SEGV $$")
    with pytest.raises(stasis.ProgramError, match="ended by SIGSEGV"):
        stasis.simulate("null", workload="job.fio", progress=False)
    fake("exit 0")
    with pytest.raises(stasis.ProgramError, match="status 0 and said nothing"):
        stasis.simulate("null", workload="job.fio", progress=False)


def test_without_a_program_the_error_says_how_to_have_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(here))
    monkeypatch.setattr("stasis._executable._folders", list)
    with pytest.raises(stasis.ProgramNotFound, match="install the wheel"):
        stasis.simulate("null", workload="job.fio")
