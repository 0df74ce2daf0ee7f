"""Runs the program: its output, its progress, and how it is stopped."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Optional

from ._progress import Progress
from .errors import Interrupted, ProgramError

#: Time after SIGINT in which the program can write its results (s).
GRACE = 20.0
#: Interval between two checks whether the run is to be stopped (s).
TICK = 0.1

_PR_SET_PDEATHSIG = 1  # prctl(2)
_libc = ctypes.CDLL(None, use_errno=True)

#: Progress line that the program prints now and then if its standard error is no terminal.
_PROGRESS = re.compile(r"progress: (?P<what>.*?)(?:, (?P<percent>\d+) %)?(?:, [^,]* left)?\s*")


#: Where a message about the command line's words ends and its usage begins.
_HELP = re.compile(r"\n\n(?:Usage: |For more information)")


@dataclass
class Completed:
    """A program that has ended."""

    command_line: list[str]
    status: int
    output: str
    errors: str
    seconds: float
    #: Whether it was asked to stop.
    stopped: bool

    def message(self) -> str:
        """The program's error message."""
        lines = self.errors.strip().splitlines()
        starts = [index for index, line in enumerate(lines) if line.startswith(("stasis: ", "error: "))]
        text = "\n".join(lines[starts[-1] :] if starts else lines[-20:])
        for prefix in ("stasis: ", "error: "):
            text = text[len(prefix) :] if text.startswith(prefix) else text
        # The command line's hints about its help are of no use here.
        text = _HELP.split(text, maxsplit=1)[0].rstrip()
        if text:
            return text
        if self.status < 0:
            return f"the program was ended by {signal.Signals(-self.status).name}"
        return f"the program ended with status {self.status} and said nothing"

    def not_interrupted(self) -> Completed:
        """Itself; raises ``Interrupted`` after Ctrl-C."""
        if self.stopped:
            raise Interrupted("the program was stopped", status=self.status, command_line=self.command_line)
        return self

    def succeeded(self) -> Completed:
        """Itself; raises ``Interrupted`` after Ctrl-C, and ``ProgramError`` for a status but 0."""
        if self.not_interrupted().status != 0:
            raise ProgramError(self.message(), status=self.status, command_line=self.command_line)
        return self


def _dies_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


@functools.lru_cache(maxsize=1)
def _setpriv() -> Optional[str]:
    return shutil.which("setpriv")


def _started(command_line: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts the program so that it does not outlive this process, be that killed."""
    if (setpriv := _setpriv()) is not None:
        # A function before `exec` would have a large process copied first: 5 ms of processor, not 1.
        return subprocess.Popen([setpriv, "--pdeathsig", "TERM", *command_line], **options)
    return subprocess.Popen(list(command_line), preexec_fn=_dies_with_parent, **options)


def run_program(
    command_line: Sequence[str],
    *,
    progress: Optional[Progress] = None,
    cwd: Optional[Path] = None,
    env: Optional[Mapping[str, str]] = None,
    stdin: Optional[bytes] = None,
    cancel: Optional[threading.Event] = None,
    echo: bool = False,
) -> Completed:
    """Runs the program to its end, or until ``cancel`` or Ctrl-C, after which it has
    `GRACE` to end.

    Raises ``OSError`` where it cannot be started.
    """
    began = time.monotonic()
    with (
        _forwarded() as forward_to,
        _started(
            command_line,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            # A separate process group: Ctrl-C reaches the program through this process, once.
            start_new_session=True,
        ) as process,
    ):
        child = _Child(process, progress, echo)
        try:
            forward_to(child)
            child.watch(stdin, cancel)
        except BaseException:
            child.kill()
            raise
    return Completed(
        command_line=list(command_line),
        status=process.returncode,
        output=child.text("output"),
        errors=child.text("errors"),
        seconds=time.monotonic() - began,
        stopped=child.stopped_at is not None,
    )


class _Child:
    """A program that runs."""

    def __init__(self, process: subprocess.Popen[bytes], progress: Optional[Progress], echo: bool) -> None:
        self.process = process
        self.progress = progress
        self.echo = echo
        self.stopped_at: Optional[float] = None
        self._kept: dict[str, list[bytes]] = {"output": [], "errors": []}
        self._line = b""

    def text(self, of: str) -> str:
        return b"".join(self._kept[of]).decode("utf-8", "replace")

    def stop(self) -> None:
        """Asks it to end; asked again, ends it."""
        if self.stopped_at is not None:
            self.kill()
            return
        self.stopped_at = time.monotonic()
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # Not reaped yet, so that its number is still its own.
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def watch(self, stdin: Optional[bytes], cancel: Optional[threading.Event]) -> None:
        """Reads the program's output until the program has ended."""
        feeder = None
        if stdin is not None:
            feeder = threading.Thread(target=self._feed, args=(stdin,), daemon=True)
            feeder.start()
        with selectors.DefaultSelector() as selector:
            for stream, name in ((self.process.stdout, "output"), (self.process.stderr, "errors")):
                assert stream is not None
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, name)
            while selector.get_map():
                try:
                    self._once(selector, cancel)
                except KeyboardInterrupt:
                    self.stop()
        while True:
            try:
                self.process.wait()
                break
            except KeyboardInterrupt:
                self.stop()
        if feeder is not None:
            feeder.join()

    def _once(self, selector: selectors.BaseSelector, cancel: Optional[threading.Event]) -> None:
        for key, _ in selector.select(TICK):
            piece = os.read(key.fd, 1 << 16)
            if piece:
                self._said(key.data, piece)
            else:
                selector.unregister(key.fileobj)
        if cancel is not None and cancel.is_set() and self.stopped_at is None:
            self.stop()
        if self.stopped_at is not None and time.monotonic() - self.stopped_at > GRACE:
            self.kill()
        if self.progress is not None:
            self.progress.tick()

    def _feed(self, stdin: bytes) -> None:
        assert self.process.stdin is not None
        try:
            with self.process.stdin as pipe:
                pipe.write(stdin)
        except BrokenPipeError:
            # The program ended without having read everything: its message gives the reason.
            pass

    def _said(self, name: str, piece: bytes) -> None:
        if name == "output":
            self._kept[name].append(piece)
            if self.echo:
                sys.stdout.write(piece.decode("utf-8", "replace"))
                sys.stdout.flush()
            return
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            told = _PROGRESS.fullmatch(line.decode("utf-8", "replace"))
            if told is None:
                self._kept[name].append(line + b"\n")
            elif self.progress is not None:
                percent = told["percent"]
                self.progress.say(told["what"], None if percent is None else int(percent))


@contextmanager
def _forwarded() -> Iterator[Callable[[_Child], None]]:
    """Within this context, a signal that would end this process ends the child first: the child that
    the yielded function is called with, also where the signal came before that.

    Only the main thread can have signal handlers; others are stopped through ``cancel``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda _child: None
        return
    seen: list[int] = []
    children: list[_Child] = []

    def forward(number: int, _frame: Optional[FrameType]) -> None:
        seen.append(number)
        for child in children:
            child.stop()

    def forward_to(child: _Child) -> None:
        children.append(child)
        if seen and child.stopped_at is None:
            child.stop()

    before: dict[signal.Signals, Callable[[int, Optional[FrameType]], object] | int | None] = {}
    default = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    for number, handler in default.items():
        # A handler of the user's stays.
        if signal.getsignal(number) == handler:
            before[number] = signal.signal(number, forward)
    try:
        yield forward_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        # Ctrl-C has done its work where there was a child to stop.
        for last in [number for number in seen if number != signal.SIGINT or not children][:1]:
            os.kill(os.getpid(), last)
