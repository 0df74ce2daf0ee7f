"""Studies, from their file to their data set."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import distributed
import duckdb
import polars
import pyarrow.parquet
import pytest

import stasis
from stasis import Study, StudyError, sweep
from stasis.study.cli import main
from stasis.study.dataset import read_dataset
from stasis.study.pools import DaskPool
from stasis.study.task import who

from .test_process import ENDLESS, children, until

STUDY = """\
ios = "parquet"
[simulate]
model    = "flash-tlc"
workload = "job.fio"
size     = "1GiB"
[axes]
seed                  = "1..3"
model.gc.policy       = ["greedy", "cost-benefit"]
"""


@pytest.fixture
def executor() -> Iterator[concurrent.futures.Executor]:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def study(here: Path) -> Path:
    path = here / "gc.toml"
    path.write_text(STUDY)
    return path


def local_cluster(**settings: Any) -> distributed.LocalCluster:
    """A cluster. Its event loop has ten seconds to start; on a busy machine one more may need to be asked for."""
    for _ in range(5):
        with contextlib.suppress(AssertionError):
            return distributed.LocalCluster(**settings)
    return distributed.LocalCluster(**settings)


@pytest.fixture(scope="module")
def cluster() -> Iterator[distributed.Client]:
    with (
        # On a busy machine a worker that was killed takes its time to start anew.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "600s"}),
        local_cluster(
            n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def contents(folder: Path) -> dict[str, bytes]:
    """What repeats of a study."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for below in ("figures", "ios")
        for path in sorted((folder / below).rglob("*.parquet"))
    }


def log(folder: Path, event: str) -> list[dict[str, Any]]:
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == event]


def test_a_study_gives_one_data_set_and_a_report(study: Path, executor: concurrent.futures.Executor) -> None:
    result = sweep(study, on=executor, verify=2)
    assert (result.total, result.computed, len(result.finished)) == (6, 6, 6)
    assert result.ok
    assert result.verified == 2
    assert result.folder == Path.cwd() / "gc-study"
    frame = result.to_polars()
    assert frame.height == 6
    assert set(frame["seed"]) == {1, 2, 3}
    assert set(frame["model.gc.policy"]) == {"greedy", "cost-benefit"}
    assert frame["count"].to_list() == [1000] * 6
    assert frame["iops"].to_list() == [1000 / seconds for seconds in frame["virtual_seconds"]]
    assert result.figures.schema.field("bytes_per_second").metadata[b"unit"] == b"B/s"
    assert result.figures.schema.field("delivered_p99_ns").metadata[b"unit"] == b"ns"
    assert len(result.ios) == 6000
    cube = result.to_xarray()
    assert dict(cube.sizes) == {"seed": 3, "policy": 2, "drive": 1, "operation": 1}
    assert list(cube["policy"].values) == ["cost-benefit", "greedy"]
    one = cube["delivered_p99_ns"].sel(seed=2, policy="greedy", drive="drive0", operation="read")
    assert float(one) == result.result(seed=2, policy="greedy").summary["drives"][0]["read"]["delivered_ns"]["p99"]
    assert cube["delivered_p99_ns"].attrs == {"units": "ns"}
    assert "policy" in result._repr_html_()
    page = result.report.read_text()
    # The distribution of each point, and intervals: seeds are repetitions, not places on an axis.
    assert page.count("<svg") == 2
    # Designs are what the axes make; seeds are their repetitions.
    assert 'class="sentence">Of 2 designs, model.gc.policy = ' in page or "in each of 2 designs" in page
    assert "Seeds are repetitions, up to 3 of each design" in page
    assert "Over seeds: mean, least and greatest" in page
    assert "<dt>Verdict</dt><dd>complete</dd>" in page
    assert "seed = 2, model.gc.policy = greedy" in page or "model.gc.policy = greedy, seed = 2" in page
    assert "Latency by seed" not in page
    assert "Latency by model.gc.policy" in page
    assert "http" not in page
    one = result.result(seed=2, policy="greedy")
    assert len(one.ios) == 1000
    with pytest.raises(stasis.ResultsError, match="2 finished points"):
        result.result(seed=2)
    assert len(log(result.folder, "finished")) == 6
    assert {line["point"]["seed"] for line in log(result.folder, "finished")} == {1, 2, 3}


def test_others_read_the_data_set(study: Path, executor: concurrent.futures.Executor) -> None:
    folder = sweep(study, on=executor).folder
    sql = f"select count(*), max(delivered_ns - submit_ns) > 0 from read_parquet('{folder}/ios/**/*.parquet', "
    assert duckdb.sql(sql + "hive_partitioning = true) where seed = 2").fetchall() == [(2000, True)]
    lazy = polars.scan_parquet(f"{folder}/figures/**/*.parquet", hive_partitioning=True)
    assert lazy.filter(polars.col("model.gc.policy") == "greedy").collect().height == 3
    import pandas

    assert len(pandas.read_parquet(folder / "figures")) == 6


def test_finished_points_are_not_run_again(study: Path, executor: concurrent.futures.Executor) -> None:
    first = sweep(study, on=executor)
    before = contents(first.folder)
    assert sweep(study, on=executor).computed == 0
    # Two more seeds, and one damaged point.
    study.write_text(STUDY.replace("1..3", "1..4"))
    key = first.finished[0].key
    (first.folder / "points" / key / "ios.parquet").write_bytes(b"PAR1")
    again = sweep(study, on=executor)
    assert again.computed == 3
    assert again.ok
    after = contents(first.folder)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 4


def test_a_point_that_fails_is_told_of_and_stops_no_other(here: Path, executor: concurrent.futures.Executor) -> None:
    made = Study(
        "some-fail",
        simulate={"model": {"kind": "fixed"}, "workload": "job.fio"},
        axes={"model.latency": ["1us", "2 bananas", "3us"]},
    )
    result = sweep(made, on=executor)
    assert len(result.finished) == 2
    assert not result.ok
    (failure,) = result.failures
    assert failure.point == "model.latency = 2 bananas"
    assert "bananas" in failure.message
    assert log(result.folder, "failed")[0]["message"] == failure.message
    assert "2 bananas" in result.report.read_text()
    # A point that has failed is tried again.
    assert len(sweep(made, on=executor).failures) == 1


def test_bytes_that_differ_are_found(study: Path, executor: concurrent.futures.Executor) -> None:
    folder = sweep(study, on=executor).folder
    for path in (folder / "points").glob("*/summary.json"):
        summary = json.loads(path.read_text())
        text = path.read_text()
        assert summary["seed"] in (1, 2, 3)
        # Surroundings do not count.
        path.write_text(text.replace(summary["started_at"], "x" * len(summary["started_at"])))
    assert sweep(study, on=executor, verify=6).ok
    damaged = sorted((folder / "points").iterdir())[0]
    whole = bytearray((damaged / "ios.parquet").read_bytes())
    whole[len(whole) // 2] ^= 1
    (damaged / "ios.parquet").write_bytes(whole)
    result = sweep(study, on=executor, verify=6)
    assert result.verified == 6
    (difference,) = result.differences
    assert difference.key == damaged.name
    assert f"ios.parquet differs from byte {len(whole) // 2:,} on" in difference.message
    assert len(log(folder, "differs")) == 1


def test_an_axis_that_the_program_does_not_know_stops_the_study(
    here: Path, executor: concurrent.futures.Executor
) -> None:
    made = Study("s", simulate={"model": "flash-tlc", "workload": "job.fio"}, axes={"model.gc.polcy": ["greedy"]})
    with pytest.raises(StudyError, match=r"the axis `model\.gc\.polcy` names no key: unknown key `polcy`"):
        sweep(made, on=executor)
    made = Study("s", simulate={"model": "flash-tlc", "workload": "job.fio"}, axes={"model.gx.policy": ["greedy"]})
    with pytest.raises(StudyError, match=r"the axis `model\.gx\.policy` names no key: unknown key `gx`"):
        sweep(made, on=executor)
    drives = [stasis.Drive("flash-tlc", "ram:1GiB")]
    guest = Study("s", experiment=stasis.Experiment(drives=drives, command=["true"]), axes={"drive.0.model.gx": [1]})
    from stasis.study.points import points_with_keys
    from stasis.study.preflight import check_keys

    with pytest.MonkeyPatch.context() as patch:
        # Without a guest: it is not what the program reads here.
        patch.setattr("stasis.study.points.made", lambda *_: SimpleNamespace(digest="none"))
        with pytest.raises(StudyError, match=r"the axis `drive\.0\.model\.gx` names no key"):
            check_keys(guest, stasis.executable(), points_with_keys(guest, stasis.executable()))
    assert not Path("s-study").exists()


def test_a_folder_that_is_not_this_study_s_is_refused(study: Path, executor: concurrent.futures.Executor) -> None:
    sweep(study, on=executor)
    other = Study("other", simulate={"model": "null", "workload": "job.fio"}, axes={"seed": [1]}, results="gc-study")
    with pytest.raises(StudyError, match="belongs to another study: its name is 'gc', not 'other'"):
        sweep(other, on=executor)
    with pytest.raises(StudyError, match="is not empty, and is no study's folder"):
        sweep(study, on=executor, results=".")
    with pytest.raises(StudyError, match=r"gc\.toml is a file, and no folder"):
        sweep(study, on=executor, results="gc.toml")
    (Path("gc-study") / "study.json").write_text("{")
    with pytest.raises(StudyError, match=r"study\.json cannot be read"):
        sweep(study, on=executor)


def test_one_study_is_run_once_at_a_time(study: Path, executor: concurrent.futures.Executor) -> None:
    import fcntl

    sweep(study, on=executor)
    with open("gc-study/.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StudyError, match="is being run now"):
            sweep(study, on=executor)


def test_a_data_set_that_is_cut_off_is_named_and_made_anew(study: Path, executor: concurrent.futures.Executor) -> None:
    result = sweep(study, on=executor)
    path = next((result.folder / "figures").rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(stasis.ResultsError, match=r"figures: .*parquet is cut off or damaged; run the study again"):
        read_dataset(result.folder / "figures")
    assert sweep(study, on=executor).figures.table.num_rows == 6
    # The same length, so that the point is taken for whole: the message says what to remove.
    damaged = result.folder / "points" / result.finished[0].key / "ios.parquet"
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    with pytest.raises(stasis.ResultsError, match=rf"remove .*points/{result.finished[0].key[:16]}\*, and run"):
        read_dataset(result.folder / "ios")
    shutil.rmtree(damaged.parent)
    again = sweep(study, on=executor)
    assert (again.computed, len(again.ios)) == (1, 6000)
    shutil.rmtree(result.folder / "ios")
    with pytest.raises(stasis.ResultsError, match="ios is missing"):
        read_dataset(result.folder / "ios")


def test_a_study_of_which_no_point_succeeds_has_a_report(here: Path, executor: concurrent.futures.Executor) -> None:
    made = Study("none", simulate={"model": "null", "workload": "job.fio"}, axes={"seed": [1.5, "x"]})
    result = sweep(made, on=executor)
    # As the program says it, without its hint to its own help.
    assert [each.message.count("\n") for each in result.failures] == [0, 0]
    assert "invalid value" in result.failures[0].message
    page = result.report.read_text()
    assert "seed = 1.5" in page
    assert "invalid value" in page


def test_a_local_study_needs_neither_dask_nor_a_main(here: Path, study: Path) -> None:
    script = here / "script.py"
    script.write_text(
        "import sys\nsys.modules['distributed'] = sys.modules['dask'] = None\nimport stasis\n"
        f"result = stasis.sweep({str(study)!r}, workers=2, verify=2, progress=False)\n"
        "print(result.ok, result.computed, result.verified, result.workers)\n"
        f"stasis.sweep({str(study)!r}, on='tcp://127.0.0.1:9', verify=1)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.stdout == "True 6 2 2\n", done.stderr
    assert "clusters are reached by Dask, which is not here (distributed)" in done.stderr.splitlines()[-1]


def test_workers_in_other_processes(study: Path) -> None:
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        result = sweep(study, on=pool, verify=1)
    assert result.ok
    assert {line["worker"] for line in log(result.folder, "finished")} != {who()}


def test_a_broken_executor_leaves_what_is_finished(here: Path, study: Path) -> None:
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        pool.submit(os.getpid).result()
        worker = pool.submit(os.getpid).result()
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(StudyError, match=r"the executor has broken.*run the study again"):
            sweep(study, on=pool)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        assert sweep(study, on=threads).ok


def test_a_cluster_that_is_not_there(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stasis.study.pools.CONNECT", 0.5)
    with pytest.raises(StudyError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9 .*start one with"):
        sweep(study, on="tcp://127.0.0.1:9")
    with pytest.raises(StudyError, match="cannot run on 'moon'"):
        sweep(study, on="moon")
    with pytest.raises(StudyError, match="cannot run on int; give an executor"):
        sweep(study, on=3)
    with pytest.raises(StudyError, match=r"at tls://127\.0\.0\.1:9 cannot be reached.*certificates"):
        sweep(study, on="tls://127.0.0.1:9")
    study.write_bytes(b"PAR1\xb5\x00")
    with pytest.raises(StudyError, match=r"gc\.toml is no text in UTF-8.*a study is a TOML file"):
        sweep(study)
    made = Study("m", simulate={"model": "null", "workload": "job.fio"}, memory="1TiB")
    with pytest.raises(StudyError, match=r"a point takes 1024\.0 GiB of memory"):
        sweep(made)


def running(cluster: distributed.Client) -> list[int]:
    """Processes of the workers that answer; none while one that was killed is still known to the scheduler."""
    try:
        return list(cluster.run(os.getpid).values())
    except OSError:
        return []


def test_points_on_a_cluster_whose_worker_is_killed(study: Path, cluster: distributed.Client) -> None:
    undisturbed = sweep(study, on=cluster, results="undisturbed")
    study.write_text(STUDY.replace("1..3", "1..9"))
    killed = []

    def kill_some() -> None:
        folder = Path("disturbed/points")
        for count in (2, 6, 10):
            until(lambda: folder.exists() and len(list(folder.iterdir())) >= count)  # noqa: B023
            until(lambda: running(cluster))
            pid = running(cluster)[0]
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill_some)
    thread.start()
    disturbed = sweep(study, on=cluster, results="disturbed", verify=3)
    thread.join()
    assert len(killed) == 3
    assert disturbed.ok, disturbed.failures
    assert len(disturbed.finished) == 18
    # A point is computed twice only where a worker died with it.
    assert len(log(disturbed.folder, "finished")) == 18
    after = contents(disturbed.folder)
    # The figures have the same columns in both, so that files are the same to the byte.
    before = contents(undisturbed.folder)
    assert {name: after[name] for name in before} == before
    for line in log(disturbed.folder, "repeats"):
        assert line["worker"] != line["before"]


def test_a_cluster_without_workers_is_given_up(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stasis.study.pools.ABANDONED", 0.5)
    monkeypatch.setattr("stasis.study.running.check_workers", lambda *_: (True, []))
    empty = local_cluster(n_workers=0, dashboard_address=None, silence_logs="CRITICAL")
    with empty, distributed.Client(empty) as client:  # noqa: SIM117
        with pytest.raises(StudyError, match=r"has had no worker for 0 s.*start workers, and run the study again"):
            sweep(study, on=client)


def test_workers_that_do_not_see_the_folder_send_their_results(
    study: Path, cluster: distributed.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = sweep(study, on=cluster, results="seen")

    class Elsewhere(DaskPool):
        """Workers to which folder and inputs have another name."""

        def run(self, tasks: Any, contents: Any, avoid: Any = None) -> Any:
            assert contents, "the job's text is sent"
            for task in tasks:
                task.study.folder = "/nowhere"
                task.inputs = {name: ("/nowhere", digest, medium) for name, (_, digest, medium) in task.inputs.items()}
            return super().run(tasks, contents, avoid)

    monkeypatch.setattr("stasis.study.pools.DaskPool", Elsewhere)
    monkeypatch.setattr("stasis.study.running.check_workers", lambda *_: (False, []))
    sent = sweep(study, on=cluster, results="sent", verify=2)
    assert sent.ok, (sent.failures, sent.differences)
    assert contents(sent.folder) == contents(seen.folder)


def test_what_was_sent_is_sent_again_after_its_workers_have_died(
    here: Path, study: Path, cluster: distributed.Client
) -> None:
    from stasis.study.pools import _Sent

    sent = _Sent(cluster, {"d": b"content"})
    assert sent._futures["d"].result() == b"content"
    sent._futures["d"].cancel()
    assert sent.again()
    assert sent._futures["d"].result() == b"content"
    assert not _Sent(cluster, {}).again()


def test_workers_with_another_version_are_refused(
    study: Path, cluster: distributed.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "bin" / "stasis"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\n[ "$*" = --version ] && echo "stasis 9.9" || exec {stasis.executable()} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setattr("stasis._run.executable", lambda: other)
    with pytest.raises(StudyError, match=r"the worker tcp://.* has another program, stasis .*; here it is stasis 9\.9"):
        sweep(study, on=cluster)
    monkeypatch.undo()
    monkeypatch.chdir(study.parent)
    monkeypatch.setattr("stasis.study.versions.metadata.version", lambda _: "9.9")
    with pytest.raises(StudyError, match=r"has package .*, and 9\.9 is here"):
        sweep(study, on=cluster, results="w")
    # An executor's workers look for themselves.
    monkeypatch.undo()
    monkeypatch.chdir(study.parent)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr("stasis.study.task.digest_of_program", lambda _: "other")
        result = sweep(study, on=pool, results="x")
    assert "has another program" in result.failures[0].message


def test_a_study_on_slurm(here: Path, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's commands are played by scripts that start the job's script here."""
    folder = here / "slurm"
    folder.mkdir()
    scripts = {
        "sbatch": 'cp "$1" job.sh; sh job.sh > job.log 2>&1 & echo $! > job.pid; echo "Submitted batch job 77"',
        "scancel": 'kill "$(cat job.pid)" 2>/dev/null; true',
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\ncd {folder}\n{text}\n")
        (folder / name).chmod(0o755)
    with pytest.raises(StudyError, match="there is no Slurm here"):
        sweep(study, on="slurm")
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    result = sweep(study, on="slurm", workers=1)
    assert result.ok, result.failures
    text = (folder / "job.sh").read_text()
    assert "#SBATCH --mem=256M" in text


def test_the_command_line(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(study), "--list"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "seed = 1, model.gc.policy = 'greedy'"
    for words in (["--workers", "0"], ["--workers", "x"], ["--verify", "-1"]):
        with pytest.raises(SystemExit, match="2"):
            main([str(study), *words])
        assert "is no number from" in capsys.readouterr().err
    assert main(["none.toml"]) == 125
    assert "cannot read none.toml" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "stasis sweep study.toml --on slurm" in capsys.readouterr().out


def test_an_interrupted_study_goes_on(here: Path) -> None:
    """By the command itself, on this machine."""
    (here / "long.fio").write_text(ENDLESS)
    study = here / "both.toml"
    study.write_text(
        'workers = 1\n[simulate]\nmodel = "null"\nsize = "1GiB"\n[axes]\nworkload = ["job.fio", "long.fio"]\n'
    )
    command = [sys.executable, "-m", "stasis", "sweep", str(study), "--workers", "1", "--quiet"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (125, "")
    assert "a study has no key `workers`" in refused.stderr
    study.write_text(study.read_text().replace("workers = 1\n", ""))
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    points, working = here / "both-study" / "points", here / "both-study" / "working"
    until(lambda: points.exists() and list(points.iterdir()) and list(working.iterdir()))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in errors
    assert not children(process.pid)
    study.write_text(study.read_text().replace(', "long.fio"', ""))
    done = subprocess.run([*command[:-1]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 points are finished, 0 of them now" in done.stdout


def test_parquet_of_a_point_has_its_columns(study: Path, executor: concurrent.futures.Executor) -> None:
    result = sweep(study, on=executor)
    path = result.folder / "points" / result.finished[0].key / "ios.parquet"
    assert "submit_ns" in pyarrow.parquet.read_schema(path).names


def test_the_columns_of_axes_have_their_types(here: Path) -> None:
    axes = {"seed": [1, 2**64 - 1], "scale": [1, 0.5], "wrap": [True, False], "model.read": ["1us", "2us"]}
    stasis.simulate("null", workload="job.fio", results="t", progress=False)
    table = {"model": {"kind": "fixed", "read": "1us"}, "trace": "t", "size": "1GiB"}
    result = sweep(Study(name="typed", simulate=table, axes=axes), progress=False)
    kinds = {name: str(result.figures.schema.field(name).type) for name in axes}
    assert kinds == {"seed": "uint64", "scale": "double", "wrap": "bool", "model.read": "string"}
    frame = result.to_pandas()
    assert set(frame["seed"]) == {1, 2**64 - 1}
    assert set(frame["wrap"]) == {True, False}
    cube = result.to_xarray()
    assert dict(cube.sizes) == {"seed": 2, "scale": 2, "wrap": 2, "read": 2, "drive": 1, "operation": 1}
    assert not cube["count"].isnull().any()
