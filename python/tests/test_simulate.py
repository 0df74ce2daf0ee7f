"""A simulation, from its call to its frames."""

from __future__ import annotations

import asyncio
import html
from pathlib import Path

import pytest

import stasis

from .conftest import JOB


def test_a_simulation_gives_a_summary_ios_files_and_a_report(here: Path) -> None:
    result = stasis.simulate("fixed:100us", workload="job.fio", results="r", progress=False)
    assert (result.ending, result.exit_status) == ("exited", 0)
    assert result.summary["drives"][0]["read"]["count"] == 1000
    assert len(result.ios) == 1000
    assert set(result.ios.latency_ns().to_pylist()) == {100_000}
    assert set(result.files) == {"summary.json", "report.html"} | {n for n in result.files if n.startswith("ios.")}
    assert result.report.read_text().lstrip().lower().startswith("<!doctype html>")
    assert "1,000 read" in repr(result)


def test_a_model_may_be_a_table_and_a_job_a_text(here: Path) -> None:
    model = {"kind": "fixed", "read": "7us"}
    result = stasis.simulate(model, workload=JOB, variables={"IOS": 17}, progress=False)
    assert result.folder == Path("results/sim-1")
    assert len(result.ios) == 17
    assert set(result.ios.latency_ns("target").to_pylist()) == {7_000}
    again = stasis.simulate(model, workload=JOB, variables={"IOS": 17}, progress=False)
    assert again.folder == Path("results/sim-2")
    assert again.ios.table.equals(result.ios.table)


def test_a_trace_is_replayed(here: Path) -> None:
    first = stasis.simulate("jpt39c", workload="job.fio", results="a", seed=3, progress=False)
    file = next(path for name, path in first.files.items() if name.startswith("ios."))
    second = stasis.simulate("jpt39c", trace=file, exact_times=True, size="1TB", seed=3, results="b", progress=False)
    assert second.ios["submit_ns"].equals(first.ios["submit_ns"])


def test_a_limit_is_no_exception(here: Path) -> None:
    result = stasis.simulate("fixed:1ms", workload="job.fio", results="r", limit="10ms", progress=False)
    assert (result.ending, result.exit_status) == ("virtual-limit", 124)


def test_an_error_has_the_message_of_the_program(here: Path) -> None:
    with pytest.raises(stasis.ProgramError, match="did you mean `latency`") as caught:
        stasis.simulate({"kind": "fixed", "latnecy": "1us"}, workload="job.fio", results="r", progress=False)
    assert caught.value.status == 125
    assert caught.value.results is None
    with pytest.raises(stasis.ProgramError, match="unknown model `fixd`"):
        stasis.simulate("fixd", workload="job.fio", progress=False)
    with pytest.raises(stasis.ExperimentError, match="either a workload or a trace"):
        stasis.simulate("null")


def test_a_call_that_fails_leaves_no_folder(here: Path) -> None:
    before = set(here.rglob("*"))
    table = {"kind": "fixed", "latnecy": "1us"}
    for named in (None, "r", "a/b"):
        with pytest.raises(stasis.ProgramError, match="<model>"):
            stasis.simulate(table, workload="job.fio", results=named, progress=False)
        with pytest.raises(stasis.ProgramError, match="<workload>"):
            stasis.simulate("null", workload="[r]\nrw=sideways\n", results=named, progress=False)
        experiment = stasis.Experiment(command=["true"], engine="steam")
        with pytest.raises(stasis.ProgramError, match="<experiment>"):
            stasis.run(experiment, results=named, progress=False)
        with pytest.raises(stasis.ProgramError, match="<experiment>"):
            stasis.crash_test(experiment, results=named, progress=False)
    with pytest.raises(stasis.StudyError):
        stasis.sweep(stasis.Study(name="s", simulate={"model": table, "workload": "job.fio"}), progress=False)
    assert set(here.rglob("*")) == before
    # What is there stays, and a message names the file that does.
    (here / "r").mkdir()
    (here / "r" / "mine").write_text("mine")
    with pytest.raises(stasis.ProgramError):
        stasis.simulate(table, workload="job.fio", results="r", progress=False)
    assert [each.name for each in (here / "r").iterdir()] == ["mine"]


def test_the_results_of_another_run_are_not_taken_for_those_of_one_that_failed(here: Path) -> None:
    stasis.simulate("fixed:100us", workload="job.fio", results="r", progress=False)
    with pytest.raises(stasis.ProgramError):
        stasis.simulate("fixd", workload="job.fio", results="r", progress=False)


def test_simulations_are_awaited_side_by_side(here: Path) -> None:
    async def several() -> list[stasis.Result]:
        calls = [
            stasis.simulate_async("fixed:100us", workload="job.fio", results=f"r{seed}", seed=seed, progress=False)
            for seed in range(3)
        ]
        return await asyncio.gather(*calls)

    results = asyncio.run(several())
    assert [len(each.ios) for each in results] == [1000] * 3


def test_results_and_comparisons_show_plots(here: Path) -> None:
    disk = stasis.simulate("jpt39c", workload="job.fio", results="disk", progress=False)
    flash = stasis.simulate("samsung-980-pro", workload="job.fio", results="flash", ios="none", progress=False)
    page = html.unescape(disk._repr_html_())
    assert "<svg" in page
    assert "1,000" in page
    both = stasis.compare(disk, fast="flash", slow=disk)
    compared = html.unescape(both._repr_html_())
    assert "<svg" in compared
    assert "fast drive0 read" in compared
    assert both.figures["results"].to_pylist() == ["disk", "fast", "slow"]
    # Percentiles that a thousand I/Os do not carry are left out.
    assert "p99.99" not in page
    with pytest.raises(stasis.ResultsError, match=r"summary.json is missing"):
        stasis.compare("nowhere")
    del flash
