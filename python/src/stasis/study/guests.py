"""Guests of a study: made once, and brought to workers by content."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from ..errors import StudyError
from .digests import digest_of

__all__ = ["GuestFolder", "bring_guest", "has_guest", "made", "packed"]


@dataclass(frozen=True)
class GuestFolder:
    """A guest in this machine's cache."""

    folder: Path
    #: Of its manifest, which has the digests of all that decides how it runs.
    digest: str


def made(program: Path, recipe: Mapping[str, Any]) -> GuestFolder:
    """The guest of a table ``[guest]``, which is made where it is not there.

    Raises `StudyError` with the program's message.
    """
    with tempfile.TemporaryDirectory(prefix="stasis-") as temporary:
        path = Path(temporary) / "guest.toml"
        path.write_text(tomli_w.dumps({"command": ["true"], "guest": dict(recipe)}), encoding="utf-8")
        command_line = [str(program), "--quiet", "guest", "build", str(path)]
        done = subprocess.run(command_line, capture_output=True, text=True, check=False)
    found = re.search(r"root file system: (.*)", done.stdout)
    if done.returncode != 0 or found is None:
        raise StudyError(f"cannot make the guest: {done.stderr.strip() or done.stdout.strip()}")
    folder = Path(found[1]).parent
    return GuestFolder(folder, digest_of(folder / "manifest.json"))


def _cache() -> Path:
    """Where the program keeps guests (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "stasis" / "guest"


def has_guest(name: str, digest: str) -> bool:
    """Returns whether this machine has the guest.

    Raises `StudyError` where it has another one in its place.
    """
    manifest = _cache() / name / "manifest.json"
    if not manifest.exists():
        return False
    if digest_of(manifest) != digest:
        raise StudyError(
            f"{manifest.parent} is the guest of another day: `stasis guest remove {name}` there, and it is brought"
        )
    return True


def bring_guest(name: str, digest: str, contents: Mapping[str, bytes]) -> None:
    """Puts the guest into this machine's cache, where it is not there.

    Raises `StudyError` where it is neither here nor was it sent.
    """
    if has_guest(name, digest):
        return
    if digest not in contents:
        raise StudyError(f"the guest {name} is not on this worker: copy it into {_cache()}")
    _cache().mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=_cache()))
    try:
        with tarfile.open(fileobj=io.BytesIO(contents[digest])) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(temporary, filter="data")
            else:
                archive.extractall(temporary)
        os.rename(temporary, _cache() / name)
    except OSError as error:
        # Another worker of this machine may have brought it meanwhile.
        if not has_guest(name, digest):
            raise StudyError(f"cannot put the guest into {_cache()}: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def packed(guest: GuestFolder) -> bytes:
    """A guest as one archive."""
    to = io.BytesIO()
    with tarfile.open(fileobj=to, mode="w:gz", compresslevel=1) as archive:
        for path in sorted(guest.folder.rglob("*")):
            archive.add(path, arcname=str(path.relative_to(guest.folder)), recursive=False)
    return to.getvalue()
