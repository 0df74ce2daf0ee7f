"""Where this package's executable is."""

from __future__ import annotations

import os
import shutil
import site
import sysconfig
from collections.abc import Iterator
from pathlib import Path

NAME = "stasis"


def _folders() -> Iterator[Path]:
    """The folders in which installers put a wheel's scripts, likeliest first."""
    yield Path(sysconfig.get_path("scripts"))
    # `pip install --target DIR`, whose scripts are in DIR/bin.
    yield Path(__file__).resolve().parent.parent / "bin"
    # `pip install --user`.
    yield Path(sysconfig.get_path("scripts", f"{os.name}_user", vars={"userbase": site.getuserbase()}))


def executable() -> Path:
    """The program's path: the one that was installed with this package, else the one in ``PATH``.

    Raises ``FileNotFoundError`` where there is none, as after an editable installation.
    """
    for folder in _folders():
        path = folder / NAME
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which(NAME)
    if found is None:
        raise FileNotFoundError(
            f"the program `{NAME}` is neither beside this package nor in PATH: install the wheel, or put it there"
        )
    return Path(found)
