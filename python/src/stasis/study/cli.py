"""``stasis sweep``, and ``stasis reproduce --on``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Callable, Optional

from ..errors import StasisError
from . import reproduction
from .definition import Study
from .outcome import StudyResult
from .running import sweep

__all__ = ["main", "reproduce"]

_EXAMPLES = """\
A study names an experiment or a simulation, and axes:

  [simulate]
  model    = "flash-tlc"
  workload = "job.fio"
  size     = "8GiB"

  [axes]
  seed            = "1..10"
  model.gc.policy = ["greedy", "cost-benefit"]

Examples:
  stasis sweep study.toml
  stasis sweep study.toml --on tcp://scheduler:8786
  stasis sweep study.toml --on slurm --workers 32 --verify 20
  stasis sweep study.toml --list        says which points there are

Exit status: 0 if all points are finished; 1 if some failed, or do not repeat; 99 if a threshold was
not met; 125 if the study cannot be run; 130 if it was stopped. What is finished stays, and the same command goes on.
"""


def parser() -> argparse.ArgumentParser:
    """The words of the command line."""
    words = argparse.ArgumentParser(
        prog="stasis sweep",
        description="Run a study: an experiment at each point of a grid, on all cores or a cluster",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument("study", metavar="STUDY.toml", help="the study")
    _add_workers(words, "compute N points again, and compare")
    words.add_argument("--results", metavar="DIR", help="folder for the results [default: the study's, or NAME-study]")
    words.add_argument("--list", action="store_true", help="list the points, and run none")
    # For `stasis repeat`, which runs studies of others.
    words.add_argument("--within", metavar="DIR", help=argparse.SUPPRESS)
    words.add_argument("-q", "--quiet", action="store_true", help="show no progress, and no summary at the end")
    return words


def _add_workers(words: argparse.ArgumentParser, verify: str) -> None:
    where = "tcp://HOST:PORT of a Dask scheduler, slurm, or local [default: local]"
    words.add_argument("--on", metavar="WHERE", help=where)
    words.add_argument("--workers", type=_from(1), metavar="N", help="how many [default: one for each core]")
    words.add_argument("--verify", type=_from(0), default=0, metavar="N", help=verify)


def _from(least: int) -> Callable[[str], int]:
    """A number from the command line that is not less."""

    def number(word: str) -> int:
        if not word.isdecimal() or int(word) < least:
            raise argparse.ArgumentTypeError(f"`{word}` is no number from {least} on")
        return int(word)

    return number


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Returns the exit status."""
    words = parser().parse_args(arguments)
    if words.list:
        return _ended("sweep", lambda: _list(words.study))

    def run() -> int:
        result = sweep(
            words.study,
            on=words.on,
            workers=words.workers,
            verify=words.verify,
            results=words.results,
            progress=False if words.quiet else None,
            within=words.within,
        )
        if not words.quiet:
            _tell(result)
        if result.failures or result.differences:
            return 1
        return 99 if result.unmet else 0

    return _ended("sweep", run)


def _list(study: str) -> int:
    for values in Study.read(study).values():
        print(", ".join(f"{name} = {value!r}" for name, value in values.items()))
    return 0


def _ended(command: str, run: Callable[[], int]) -> int:
    """Runs a command and prints its error; returns the exit status."""
    try:
        return run()
    except StasisError as error:
        print(f"stasis {command}: {error}", file=sys.stderr)
        return 125
    except OSError as error:
        # A full disk, say.
        print(f"stasis {command}: {error}. What is finished stays, and the same command goes on", file=sys.stderr)
        return 125
    except KeyboardInterrupt:
        print(f"stasis {command}: stopped; what is finished stays, and the same command goes on", file=sys.stderr)
        return 130


_REPRODUCE_EXAMPLES = """\
Examples:
  stasis reproduce femu --on local
  stasis reproduce coordination --quick --on tcp://scheduler:8786
  stasis reproduce barrier --on slurm --workers 3 --verify 1

Exit status: 0 if all experiments are finished; 1 if some failed, or do not repeat; 125 if the publication
cannot be repeated; 130 if it was stopped. What is finished stays, and the same command goes on.
"""


def reproduce_parser() -> argparse.ArgumentParser:
    """The words of ``stasis reproduce --on``."""
    words = argparse.ArgumentParser(
        prog="stasis reproduce",
        description="Repeat a publication's experiments as a study, on all cores or a cluster",
        epilog=_REPRODUCE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument("publication", metavar="PUBLICATION", help="as `stasis reproduce --help` lists them")
    _add_workers(words, "compute N experiments again, and compare")
    words.add_argument("--results", metavar="DIR", help="folder for the results [default: PUBLICATION-study]")
    size = words.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="fewer experiments and I/Os, as a check")
    size.add_argument("--full", action="store_true", help="as large as the publication")
    words.add_argument("--device", metavar="MODEL,...", help="drives to measure; coordination only")
    words.add_argument("--engine", metavar="ENGINE", help="where the machines run [default: auto]")
    words.add_argument("-q", "--quiet", action="store_true", help="show no progress, and no summary at the end")
    return words


def reproduce(arguments: Optional[Sequence[str]] = None) -> int:
    """``stasis reproduce --on``. Returns the exit status."""
    words = reproduce_parser().parse_args(arguments)

    def run() -> int:
        result = reproduction.reproduce(
            words.publication,
            on=words.on,
            workers=words.workers,
            verify=words.verify,
            results=words.results,
            quick=words.quick,
            full=words.full,
            device=words.device.split(",") if words.device else (),
            engine=words.engine,
            progress=False if words.quiet else None,
        )
        if not words.quiet:
            print(result.text, end="")
            _tell(result)
        return 0 if result.ok else 1

    return _ended("reproduce", run)


def _tell(result: StudyResult) -> None:
    for each in result.failures:
        print(f"failed: {each.point}: {each.message}", file=sys.stderr)
    for each in result.differences:
        print(f"does not repeat: {each.point}: {each.message}", file=sys.stderr)
    for each in result.unmet:
        print(f"not met: {each.point}: {each.message}", file=sys.stderr)
    print(f"{len(result.finished):,} of {result.total:,} points are finished, {result.computed:,} of them now")
    if result.verified:
        same = result.verified - len(result.differences)
        print(f"{same:,} of {result.verified:,} points that were computed again are the same, byte for byte")
    print(f"report: {result.report}")


if __name__ == "__main__":
    sys.exit(main())
