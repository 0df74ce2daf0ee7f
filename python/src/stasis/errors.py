"""The exceptions of this package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Optional

__all__ = [
    "ExperimentError",
    "Interrupted",
    "ProgramError",
    "ProgramNotFound",
    "ResultsError",
    "StasisError",
    "StudyError",
]


class StasisError(Exception):
    """The base of all exceptions of this package but `Interrupted`."""


class ProgramNotFound(StasisError, FileNotFoundError):
    """There is no executable to run."""


class ExperimentError(StasisError, ValueError):
    """An experiment has an invalid key or value."""


class ProgramError(StasisError):
    """The program itself failed, and not the guest's command.

    ``str()`` is the program's message.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        command_line: Sequence[str] = (),
        results: Optional[Path] = None,
    ) -> None:
        super().__init__(message)
        #: The exit status: 125 for a run that failed, 2 for words that are none of the
        #: command line's, or minus the number of the signal that ended the program.
        self.status = status
        #: The command line that was started.
        self.command_line = list(command_line)
        #: The folder with the results so far, if any were kept.
        self.results = results

    def __reduce__(self) -> tuple[object, ...]:
        # Executors send exceptions between processes.
        return (_program_error, (str(self), self.status, self.command_line, self.results))


def _program_error(message: str, status: int, command_line: Sequence[str], results: Optional[Path]) -> ProgramError:
    return ProgramError(message, status=status, command_line=command_line, results=results)


class Interrupted(KeyboardInterrupt):
    """A run that was stopped by Ctrl-C; the results until then are in ``results``.

    It is a ``KeyboardInterrupt`` and no ``Exception``, so that it ends a program that does not catch
    it, also in a loop that goes on after errors.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        command_line: Sequence[str] = (),
        results: Optional[Path] = None,
    ) -> None:
        super().__init__(message)
        #: The exit status: 130, or minus the number of the signal that ended the program.
        self.status = status
        #: The command line that was started.
        self.command_line = list(command_line)
        #: The folder with the results so far, if any were kept.
        self.results = results

    def __reduce__(self) -> tuple[object, ...]:
        # Executors send exceptions between processes.
        return (_interrupted, (str(self), self.status, self.command_line, self.results))


def _interrupted(message: str, status: int, command_line: Sequence[str], results: Optional[Path]) -> Interrupted:
    return Interrupted(message, status=status, command_line=command_line, results=results)


class ResultsError(StasisError):
    """Results that are missing, cut off, or not those of a run."""


class StudyError(StasisError):
    """A study that cannot be run as it is written, or not where it is to run."""
