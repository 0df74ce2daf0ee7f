"""Checks that all workers can compute a study's points as this machine would."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from .._distribution import DISTRIBUTION
from ..errors import StudyError
from .digests import digest_of_program
from .guests import GuestFolder, has_guest
from .pools import DaskPool, Pool
from .task import Visible, version_of

__all__ = ["check_workers"]


def about_worker(program: str, study: Visible, guests: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Runs on a worker; describes its program, package and guests."""
    from .._run import program as found

    try:
        here = found()
        digest, version = digest_of_program(here), version_of(here)
    except Exception as error:
        digest, version = "", f"no program: {error}"
    about: dict[str, Any] = {
        "same": digest == program,
        "program": version,
        "package": metadata.version(DISTRIBUTION),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "sees": study.seen() is not None,
    }
    try:
        about["without"] = [digest for name, digest in guests if not has_guest(name, digest)]
    except StudyError as error:
        about["guest"] = str(error)
    return about


def check_workers(pool: Pool, program: str, study: Visible, guests: Sequence[GuestFolder]) -> tuple[bool, list[str]]:
    """Whether every worker sees the study's folder, and the digests of the guests that one does not have.

    Raises `StudyError` with the worker that has another version.
    """
    if not isinstance(pool, DaskPool):
        # Executors cannot be asked; each task looks for itself.
        return True, []
    wanted = [(guest.folder.name, guest.digest) for guest in guests]
    mine = about_worker(program, study, wanted)
    try:
        theirs = pool.everywhere(about_worker, program, study, wanted)
    except Exception as error:
        raise StudyError(
            f"the workers of {pool.name} cannot use this package ({type(error).__name__}: {error}); "
            f"install {DISTRIBUTION} {mine['package']} there"
        ) from error
    for address, found in theirs.items():
        _check(address, found, mine)
    without = {digest for found in theirs.values() for digest in found["without"]}
    return all(found["sees"] for found in theirs.values()), sorted(without)


def _check(address: str, found: dict[str, Any], mine: dict[str, Any]) -> None:
    for key in ("package", "python"):
        if found[key] != mine[key]:
            raise StudyError(
                f"the worker {address} has {key} {found[key]}, and {mine[key]} is here; install the same there"
            )
    if not found["same"]:
        raise StudyError(
            f"the worker {address} has another program, {found['program']}; here it is {mine['program']}: "
            "install the same package there as here"
        )
    if "guest" in found:
        raise StudyError(f"the worker {address}: {found['guest']}")
