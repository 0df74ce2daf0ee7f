"""``python -m stasis``: ``sweep`` and ``reproduce --on`` are this package's; for all else it becomes the program."""

import os
import sys

from ._executable import executable


def main() -> None:
    """Does not return, but for an error."""
    if sys.argv[1:2] == ["sweep"]:
        from .study.cli import main as sweep

        sys.exit(sweep(sys.argv[2:]))
    if sys.argv[1:2] == ["reproduce"] and any(word.split("=")[0] == "--on" for word in sys.argv):
        from .study.cli import reproduce

        sys.exit(reproduce(sys.argv[2:]))
    try:
        path = executable()
    except FileNotFoundError as error:
        sys.exit(f"stasis: {error}")
    os.execv(path, [str(path), *sys.argv[1:]])


if __name__ == "__main__":
    main()
