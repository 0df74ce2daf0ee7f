"""``python -m stasis``: ``sweep`` is this package's; for all else it becomes the program."""

import os
import sys

from ._executable import executable


def main() -> None:
    """Does not return, but for an error."""
    if sys.argv[1:2] == ["sweep"]:
        from .study.cli import main as sweep

        sys.exit(sweep(sys.argv[2:]))
    try:
        path = executable()
    except FileNotFoundError as error:
        sys.exit(f"stasis: {error}")
    os.execv(path, [str(path), *sys.argv[1:]])


if __name__ == "__main__":
    main()
