"""Archives of studies, which the program makes and repeats by this package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stasis import Study, StudyError, sweep

STUDY = """\
[simulate]
model    = "m.toml"
workload = "../job.fio"
[axes]
seed            = "1..2"
model.gc.policy = ["greedy", "cost-benefit"]
"""


def called(program: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    # `stasis-sweep`, as in an environment that is active.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [str(program), *words], cwd=cwd, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def work(here: Path) -> Path:
    folder = here / "work"
    folder.mkdir()
    (folder / "gc.toml").write_text(STUDY.replace('"m.toml"', '"flash-tlc"').replace("[axes]", 'size = "1GiB"\n[axes]'))
    return folder


def test_an_archived_study_is_repeated(work: Path, program: Path, tmp_path: Path) -> None:
    swept = called(program, "sweep", "gc.toml", "--quiet", cwd=work)
    assert swept.returncode == 0, swept.stderr
    archived = called(program, "archive", "gc-study", "-o", str(tmp_path / "a.tar.zst"), cwd=work)
    assert archived.returncode == 0, archived.stderr
    assert "2 inputs and the results of 4 runs" in archived.stderr
    (work / "gc.toml").unlink()
    (tmp_path / "job.fio").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = called(program, "repeat", "../a.tar.zst", "--results", "again", cwd=elsewhere)
    assert again.returncode == 0, again.stderr
    assert "the same: every figure" in again.stderr
    assert "of 4 runs" in again.stderr
    assert (elsewhere / "again" / "report.html").exists()


def test_a_study_made_in_python_is_repeated_from_its_folder(
    work: Path, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work)
    simulate = {"model": "flash-tlc", "workload": "../job.fio", "size": "1GiB"}
    study = Study("own", simulate=simulate, axes={"seed": range(1, 3), "model.gc.policy": ["greedy", "cost-benefit"]})
    result = sweep(study)
    assert result.repeat is not None
    assert result.repeat["command"] == "stasis sweep own-study/study.toml --results again"
    assert "own-study/study.toml" in result.report.read_text()
    written = Study.read(result.folder / "study.toml")
    assert written.values() == study.values()
    again = called(program, *result.repeat["command"].split()[1:], cwd=work)
    assert again.returncode == 0, again.stderr
    names = [{path.name for path in (work / name / "points").iterdir()} for name in ("own-study", "again")]
    assert names[0] == names[1]
    assert called(program, "archive", "own-study", "-o", "a.tar.zst", cwd=work).returncode == 0
    repeated = called(program, "repeat", "work/a.tar.zst", "--results", "repeated", cwd=tmp_path)
    assert repeated.returncode == 0, repeated.stderr


def test_a_difference_is_named_by_its_point(work: Path, program: Path, tmp_path: Path) -> None:
    assert called(program, "sweep", "gc.toml", "--quiet", cwd=work).returncode == 0
    point = next(path for path in (work / "gc-study" / "points").iterdir())
    values = json.loads((point / "point.json").read_text())["values"]
    summary = json.loads((point / "summary.json").read_text())
    summary["drives"][0]["read"]["count"] = 3
    (point / "summary.json").write_text(json.dumps(summary))
    assert called(program, "archive", "gc-study", "-o", "a.tar.zst", cwd=work).returncode == 0
    again = called(program, "repeat", "a.tar.zst", "--results", "again", cwd=work)
    assert again.returncode == 1, again.stderr
    said = [line for line in again.stderr.splitlines() if "different: " in line]
    assert len(said) == 1
    assert f'"seed":{values["seed"]}' in said[0]
    assert "drives.0.read.count: 3, now" in said[0]


@pytest.mark.parametrize(
    ("replaced", "by", "reason"),
    [
        ('"../job.fio"', '"../../job.fio"', "leads out of"),
        ('"flash-tlc"', '"profile:/etc/hostname"', "leads out of"),
        ("seed            =", "variable.x = { files = '/etc/*' }\nseed =", "leads out of"),
    ],
)
def test_a_study_of_somebody_else_reads_its_own_files_only(work: Path, replaced: str, by: str, reason: str) -> None:
    study = work / "gc.toml"
    study.write_text(study.read_text().replace(replaced, by))
    with pytest.raises(StudyError, match=reason):
        sweep(study, within=work.parent)
    assert not (work.parent / "gc-study" / "points").exists()
