"""Publications repeated as studies."""

from __future__ import annotations

import concurrent.futures
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest

import stasis
from stasis import StudyError, reproduce
from stasis.study.cli import reproduce as main
from stasis.study.reproduction import Reproduction

#: Simulations of FEMU's that take a moment each.
SOME = ("collection-none", "grid-basic-1x1", "grid-basic-16x1", "oltp-16t-4x4-basic", "oltp-16t-4x4-advanced")


@pytest.fixture
def executor() -> Iterator[concurrent.futures.Executor]:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def some(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FEMU with `SOME` of its experiments: none has a guest."""
    listed = Reproduction.listed

    def fewer(publication: str, options: list[str]) -> Reproduction:
        study = listed(publication, [*options, "--engine", "exact"])
        study.parts = [part for part in study.parts if part["name"] in SOME]
        return study

    monkeypatch.setattr(Reproduction, "listed", fewer)


def lasting(page: str) -> str:
    """A page without what tells of the run's surroundings, and without wall-clock times."""
    page = re.sub(r"<div><dt>(Started at|Command line)</dt>.*</div>", "", page)
    # The table of runs: time frozen, and the wall-clock time of the command.
    return re.sub(
        r'(<tr><th scope="row">[\w-]+</th>(?:<td[^>]*>[^<]*</td>){5})(?:<td[^>]*>[^<]*</td>){2}</tr>', r"\1", page
    )


def test_a_reproduction_is_a_study_and_its_page_that_of_one_process(
    some: None, here: Path, executor: concurrent.futures.Executor
) -> None:
    result = reproduce("femu", on=executor, quick=True, verify=2)
    assert result.ok, (result.failures, result.differences)
    assert (result.total, result.computed, result.verified) == (5, 5, 2)
    assert result.folder == Path.cwd() / "femu-study"
    figures = result.figures.to_pylist()
    assert len(figures) > 20
    (slowest,) = [row for row in figures if row["what"].startswith("1 x 1, one register")]
    assert slowest["measured"] == pytest.approx(slowest["closed_form"], rel=0.02)
    assert result.text.splitlines()[0].split()
    assert "Fig. 4" in result._repr_html_()
    # The program alone, by the same names.
    command = [str(stasis.executable()), "reproduce", "femu", "--quick", "--engine", "exact", "--results", "alone"]
    subprocess.run([*command, "--only", ",".join(SOME)], check=True)
    subprocess.run([*command, "--gather"], capture_output=True, check=False)
    alone = Path("alone")
    assert (alone / "figures.json").read_bytes() == (result.folder / "figures.json").read_bytes()
    assert lasting((alone / "report.html").read_text()) == lasting(result.report.read_text())
    for name in SOME:
        assert (alone / name / "complete.json").read_bytes() == (
            result.folder / "runs" / name / "complete.json"
        ).read_bytes()


def test_finished_experiments_are_never_run_again(
    some: None, here: Path, executor: concurrent.futures.Executor
) -> None:
    first = reproduce("femu", on=executor, quick=True)
    page = lasting(first.report.read_text())
    again = reproduce("femu", on=executor, quick=True)
    assert (again.computed, again.ok) == (0, True)
    assert lasting(again.report.read_text()) == page
    # One that is damaged, alone, is made anew.
    damaged = first.folder / "runs" / SOME[0] / "complete.json"
    damaged.write_bytes(damaged.read_bytes()[:-10])
    assert reproduce("femu", on=executor, quick=True).computed == 1
    # Another size is other experiments, and both are kept.
    assert reproduce("femu", on=executor, quick=True).computed == 0


def test_an_experiment_that_fails_stops_no_other(
    some: None, here: Path, executor: concurrent.futures.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Reproduction.listed

    def with_a_wrong_one(publication: str, options: list[str]) -> Reproduction:
        study = listed(publication, options)
        study.parts.insert(0, {**study.parts[0], "name": "nonsense"})
        return study

    monkeypatch.setattr(Reproduction, "listed", with_a_wrong_one)
    result = reproduce("femu", on=executor, quick=True)
    (failure,) = result.failures
    assert (failure.point, result.ok, len(result.finished)) == ("part = nonsense", False, 5)
    assert "no such experiment" in failure.message
    assert "Fig. 4" in result.report.read_text()


#: A publication of which two experiments are compared by the wall clock. It notes when each ran.
FAKE = """\
notes={notes}
while [ $# -gt 0 ]; do case "$1" in
  --list) echo '{{"engine": "exact", "parts": [
    {{"name": "a", "what": "", "digest": "1", "guests": [], "memory": 0, "timed": "pair"}},
    {{"name": "b", "what": "", "digest": "2", "guests": [], "memory": 0, "timed": null}},
    {{"name": "c", "what": "", "digest": "3", "guests": [], "memory": 0, "timed": "pair"}},
    {{"name": "d", "what": "", "digest": "4", "guests": [], "memory": 0, "timed": null}}]}}'; exit;;
  --only) only=$2;;
  --gather) gather=1;;
  --results) results=$2;;
esac; shift; done
if [ "$gather" ]; then ls "$results" > "$results/report.html"; echo '[]' > "$results/figures.json"; exit; fi
echo "begin $only" >> $notes
sleep 0.3
for part in $(echo $only | tr , ' '); do mkdir -p "$results/$part"; echo '{{}}' > "$results/$part/complete.json"; done
echo "end $only" >> $notes
"""


def test_what_the_wall_clock_measures_runs_alone_and_together(
    fake: Callable[[str], Path], here: Path, executor: concurrent.futures.Executor
) -> None:
    fake(FAKE.format(notes=here / "notes"))
    result = reproduce("p", on=executor, verify=4)
    assert result.ok, (result.failures, result.differences)
    assert result.report.read_text().split() == ["a", "b", "c", "d", "report.html"]
    notes = (here / "notes").read_text().splitlines()
    assert notes[4:6] == ["begin a,c", "end a,c"]
    assert sorted(notes[:2]) == ["begin b", "begin d"]
    # Compared are those that repeat.
    assert sorted(notes[6:]) == ["begin b", "begin d", "end b", "end d"]
    assert result.verified == 2
    keys = [point.values for point in result.finished]
    assert keys == [{"part": "a+c"}, {"part": "b"}, {"part": "d"}]


def test_machines_in_real_time_have_nothing_beside_them(fake: Callable[[str], Path], here: Path) -> None:
    part = {"name": "a", "what": "", "digest": "1", "guests": [], "memory": 1 << 30, "timed": None}
    study = Reproduction("p", ["p"], "kvm", [part, {**part, "name": "b", "memory": 0}])
    program = fake("exit 1")
    assert [point.alone for point in study.points(program, True)] == [True, False]
    assert [point.alone for point in study.points(program, False)] == [False, False]


def test_what_cannot_be_repeated_is_told(
    fake: Callable[[str], Path], here: Path, executor: concurrent.futures.Executor, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StudyError, match=r"moon cannot be repeated: .*'moon'"):
        reproduce("moon", on=executor)
    with pytest.raises(StudyError, match=r"femu cannot be repeated: --full: only"):
        reproduce("femu", on=executor, full=True)
    assert main(["femu", "--full", "--on", "local"]) == 125
    assert "stasis reproduce: femu cannot be repeated" in capsys.readouterr().err
    assert not list(here.glob("*-study"))
    (here / "other").mkdir()
    (here / "other" / "study.json").write_text(json.dumps({"name": "gc", "kind": "sim", "axes": ["seed"], "id": "1"}))
    fake(FAKE.format(notes=here / "notes"))
    with pytest.raises(StudyError, match="belongs to another study: its name is 'gc', not 'p'"):
        reproduce("p", on=executor, results="other")
    fake("echo '[]'")
    with pytest.raises(StudyError, match=r"two versions; install the same one"):
        reproduce("p", on=executor)


def test_the_command_line_runs_on_a_cluster_of_its_own(
    fake: Callable[[str], Path], here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fake(FAKE.format(notes=here / "notes"))
    # Workers are processes: they find the program by PATH.
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setattr("stasis._executable._folders", list)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr("stasis.study.pools._local", lambda *_: pytest.fail("no executor was given"))
        assert reproduce("p", on=pool).ok
    assert main(["p", "--on", "local"]) == 0
    assert "3 of 3 points are finished, 0 of them now" in capsys.readouterr().out


@pytest.mark.slow
def test_guests_of_a_publication_on_two_workers(here: Path) -> None:
    """Barrier's three guests on a Dask cluster of this machine, against one process."""
    result = reproduce("barrier", quick=True, engine="exact", verify=1)
    assert result.ok, (result.failures, result.differences)
    command = [str(stasis.executable()), "reproduce", "barrier", "--quick", "--engine", "exact", "--results", "alone"]
    subprocess.run(command, check=True, capture_output=True)
    assert Path("alone/figures.json").read_bytes() == (result.folder / "figures.json").read_bytes()
    assert lasting(Path("alone/report.html").read_text()) == lasting(result.report.read_text())
