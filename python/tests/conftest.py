"""What the tests share. They run the program that `STASIS_EXECUTABLE` names, or that `make build` has built."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import stasis

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target" / "x86_64-unknown-linux-gnu" / "release" / "stasis"

JOB = """\
[reads]
filename=/dev/nvme0n1
rw=randread
bs=4k
ioengine=libaio
iodepth=4
size=256m
number_ios=${IOS}
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run what boots guests, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="boots guests: --slow runs it")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The program, found as in an installation without a wheel: in PATH."""
    path = Path(os.environ.get("STASIS_EXECUTABLE", BUILT))
    if not path.is_file():
        pytest.exit(f"{path} is not there: `make build`, or name another one by STASIS_EXECUTABLE", 2)
    folder = tmp_path_factory.mktemp("bin")
    (folder / "stasis").symlink_to(path.resolve())
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{before}"
    yield stasis.executable()
    os.environ["PATH"] = before


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with a job file of a thousand reads."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.fio").write_text(JOB.replace("${IOS}", "1000"))
    return tmp_path


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a shell script in the program's place."""

    def place(script: str) -> Path:
        path = tmp_path / "fake-bin" / "stasis"
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr("stasis._run.executable", lambda: path)
        return path

    return place
