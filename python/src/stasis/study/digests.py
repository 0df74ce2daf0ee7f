"""Digests of the inputs that decide a point's results."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from ..errors import StudyError

__all__ = ["canonical", "digest_of", "digest_of_program"]

#: The program of publications, beside the main one.
_REPRODUCE = "stasis-reproduce"


def canonical(value: Any) -> bytes:
    """The same bytes for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def digest_of(path: Path) -> str:
    """SHA-256 of a file, or of a folder's names and contents; the digest is remembered until the
    file changes.

    Raises `StudyError`.
    """
    try:
        stat = path.stat()
        if path.is_dir():
            names = sorted(each for each in path.rglob("*") if each.is_file())
            return hashlib.sha256(
                canonical([[str(each.relative_to(path)), digest_of(each)] for each in names])
            ).hexdigest()
        return _digest(str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}") from error


def digest_of_program(program: Path) -> str:
    """The digest of the program, and of that of publications beside it, where one is there.

    Raises `StudyError`.
    """
    beside = program.resolve().with_name(_REPRODUCE)
    if not beside.is_file():
        return digest_of(program)
    return hashlib.sha256(canonical([digest_of(program), digest_of(beside)])).hexdigest()


@functools.lru_cache(maxsize=4096)
def _digest(path: str, _inode: int, _size: int, _changed: int) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()
