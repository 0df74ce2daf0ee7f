"""``stasis sweep``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Callable, Optional

from ..errors import StasisError
from .definition import Study
from .outcome import StudyResult
from .running import sweep

__all__ = ["main"]

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

Exit status: 0 if all points are finished; 1 if some failed, or do not repeat; 125 if the study
cannot be run; 130 if it was stopped. What is finished stays, and the same command goes on.
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
    words.add_argument("--on", metavar="WHERE", help="tcp://HOST:PORT of a Dask scheduler, or slurm [default: here]")
    words.add_argument("--workers", type=_from(1), metavar="N", help="how many [default: one for each core]")
    words.add_argument("--verify", type=_from(0), default=0, metavar="N", help="compute N points again, and compare")
    words.add_argument("--results", metavar="DIR", help="folder for the results [default: the study's, or NAME-study]")
    words.add_argument("--list", action="store_true", help="list the points, and run none")
    words.add_argument("-q", "--quiet", action="store_true", help="show no progress, and no summary at the end")
    return words


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
    try:
        if words.list:
            for values in Study.read(words.study).values():
                print(", ".join(f"{name} = {value!r}" for name, value in values.items()))
            return 0
        result = sweep(
            words.study,
            on=words.on,
            workers=words.workers,
            verify=words.verify,
            results=words.results,
            progress=False if words.quiet else None,
        )
    except StasisError as error:
        print(f"stasis sweep: {error}", file=sys.stderr)
        return 125
    except OSError as error:
        # A full disk, say.
        print(f"stasis sweep: {error}. What is finished stays, and the same command goes on", file=sys.stderr)
        return 125
    except KeyboardInterrupt:
        print("stasis sweep: stopped; what is finished stays, and the same command goes on", file=sys.stderr)
        return 130
    if not words.quiet:
        _tell(result)
    return 0 if result.ok else 1


def _tell(result: StudyResult) -> None:
    for each in result.failures:
        print(f"failed: {each.point}: {each.message}", file=sys.stderr)
    for each in result.differences:
        print(f"does not repeat: {each.point}: {each.message}", file=sys.stderr)
    print(f"{len(result.finished):,} of {result.total:,} points are finished, {result.computed:,} of them now")
    if result.verified:
        same = result.verified - len(result.differences)
        print(f"{same:,} of {result.verified:,} points that were computed again are the same, byte for byte")
    print(f"report: {result.report}")


if __name__ == "__main__":
    sys.exit(main())
