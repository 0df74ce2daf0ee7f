"""The results of several runs beside each other and as one table, and the table of models."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import duckdb
import polars
import pytest

import stasis

from .conftest import JOB


@pytest.fixture
def disk(here: Path) -> stasis.Result:
    return stasis.simulate("jpt39c", workload="job.fio", results="disk", seed=3, progress=False)


@pytest.fixture
def flash(here: Path) -> stasis.Result:
    return stasis.simulate("samsung-980-pro", workload="job.fio", results="flash", progress=False)


def test_the_version_is_that_of_the_distribution() -> None:
    assert stasis.__version__ == metadata.version("stasis-vm")


def test_rates_are_in_the_summary_the_text_and_the_table(flash: stasis.Result) -> None:
    drive = flash.summary["drives"][0]
    assert drive["read"]["iops"] == 1000 / drive["active_seconds"]
    iops, megabytes = drive["read"]["iops"], drive["read"]["bytes_per_second"] / 1e6
    assert f"drive0: 1,000 read ({iops:,.0f} IOPS, {megabytes:.4g} MB/s)" in repr(flash)
    assert f"{iops:,.0f}" in flash._repr_html_()
    # A summary of an earlier version.
    del drive["read"]["iops"]
    assert "drive0: 1,000 read>" in repr(flash)
    assert "–" in flash._repr_html_()


def test_results_of_many_runs_are_one_table(here: Path, disk: stasis.Result, flash: stasis.Result) -> None:
    for seed in (10, 2):
        stasis.simulate("null", workload="job.fio", results=f"seeds/{seed}-null", seed=seed, progress=False)
    both = stasis.collect(disk, "flash", ["disk"], null="seeds")
    assert list(both.results) == ["disk", "flash", "disk-2", "null/2-null", "null/10-null"]
    frame = both.to_polars()
    assert frame["results"].to_list() == list(both.results)
    assert frame["model"].to_list() == ["jpt39c", "samsung-980-pro", "jpt39c", "null", "null"]
    assert frame["seed"].to_list() == [3, 0, 3, 2, 10]
    assert frame["iops"][0] == disk.summary["drives"][0]["read"]["iops"]
    assert frame["delivered_p99_ns"][1] == flash.summary["drives"][0]["read"]["delivered_ns"]["p99"]
    assert both.figures.schema.field("delivered_p99_ns").metadata == {b"unit": b"ns"}
    assert both.figures.schema.field("iops").metadata == {b"unit": b"1/s"}
    assert list(both.to_pandas()["count"]) == [1000] * 5
    ios = both.ios
    assert len(ios) == 5000
    counted = duckdb.sql("select results, count(*) n from ios group by all order by all").fetchall()
    assert counted == sorted((label, 1000) for label in both.results)
    assert (
        polars.DataFrame(ios).filter(polars.col("results") == "flash")["lba"].to_list() == flash.ios["lba"].to_pylist()
    )
    assert "disk-2" in both._repr_html_()
    assert repr(both).startswith("<Collection of 5 results: disk, flash")


def test_what_cannot_be_collected_is_named(here: Path, flash: stasis.Result) -> None:
    with pytest.raises(stasis.ResultsError, match="no results to collect"):
        stasis.collect([])
    with pytest.raises(stasis.ResultsError, match=r"nowhere.summary\.json is missing"):
        stasis.collect(flash, "nowhere")
    none = stasis.simulate("null", workload="job.fio", results="n", ios="none", progress=False)
    with pytest.raises(stasis.ResultsError, match="kept no I/Os"):
        _ = stasis.collect(flash, none).ios


def test_a_seed_may_have_64_bits(here: Path) -> None:
    stasis.simulate("null", workload="job.fio", results="n", seed=2**64 - 1, progress=False)
    assert stasis.collect("n").figures["seed"].to_pylist() == [2**64 - 1]


def test_a_comparison_has_differences_with_their_significance(
    here: Path, disk: stasis.Result, flash: stasis.Result
) -> None:
    compared = stasis.compare(flash, slow=disk, same="flash")
    frame = compared.to_polars()
    assert set(frame["base"]) == {"flash"}
    slow = frame.filter((polars.col("results") == "slow") & (polars.col("statistic") == "p50"))
    (row,) = slow.to_dicts()
    read = {
        label: each.summary["drives"][0]["read"]["delivered_ns"]["p50"] for label, each in (("a", flash), ("b", disk))
    }
    assert (row["base_value"], row["value"]) == (read["a"], read["b"])
    assert row["percent"] == pytest.approx((read["b"] / read["a"] - 1) * 100)
    assert row["significant"] is True
    assert row["low"] <= row["value"] <= row["high"]
    same = frame.filter(polars.col("results") == "same")
    assert same["percent"].to_list() == [0.0] * len(same)
    assert not any(same["significant"])
    (rate,) = frame.filter((polars.col("results") == "slow") & (polars.col("statistic") == "IOPS")).to_dicts()
    assert (row["unit"], rate["unit"]) == ("ns", "1/s")
    assert rate["value"] == pytest.approx(disk.summary["drives"][0]["read"]["iops"])
    assert list(compared.to_pandas().columns) == frame.columns
    assert "difference" in compared._repr_html_()
    assert set(compared.figures["results"].to_pylist()) == {"flash", "slow", "same"}


def test_runs_with_several_seeds_are_one_candidate(here: Path, flash: stasis.Result) -> None:
    for name, model in (("before", "flash-tlc"), ("after", "uniform:1us-2us")):
        for seed in (1, 2, 3):
            stasis.simulate(model, workload="job.fio", size="1GiB", seed=seed, results=f"{name}/{seed}", progress=False)
    compared = stasis.compare("before", after=["after/1", "after/2", "after/3"])
    assert {label: len(results) for label, results in compared.candidates.items()} == {"before": 3, "after": 3}
    (row,) = [row for row in compared.differences.to_pylist() if row["statistic"] == "mean"]
    # Student's distribution has an interval of the three runs' means.
    assert row["base_low"] < row["base_value"] < row["base_high"]
    assert (row["results"], row["significant"]) == ("after", True)
    (rate,) = [row for row in compared.differences.to_pylist() if row["statistic"] == "IOPS"]
    assert (rate["unit"], rate["significant"]) == ("1/s", True)
    assert f"{rate['value']:.4g} 1/s" in compared._repr_html_()


def test_a_comparison_of_nothing_is_refused(here: Path, flash: stasis.Result) -> None:
    with pytest.raises(stasis.ResultsError, match="needs two results"):
        _ = stasis.compare(flash).differences
    with pytest.raises(stasis.ResultsError, match="empty list"):
        stasis.compare(flash, other=[])
    none = stasis.simulate("null", workload="job.fio", results="n", ios="none", progress=False)
    with pytest.raises(stasis.ResultsError, match=r"^n has none of ios\.parquet"):
        _ = stasis.compare(flash, none).differences
    writes = JOB.replace("${IOS}", "9").replace("randread", "randwrite")
    other = stasis.simulate("null", workload=writes, results="w", progress=False)
    with pytest.raises(stasis.ProgramError, match=r"nothing to compare.*: flash has drive0 \(read\); writes has"):
        _ = stasis.compare(flash, writes=other).differences
    # A label that is no file's name.
    assert set(stasis.compare(flash, **{"a/b": flash, "..": flash}).to_polars()["results"]) == {"a/b", ".."}


def test_models_are_a_table_and_a_model_can_be_changed(here: Path) -> None:
    models = stasis.models()
    frame = models.to_polars()
    assert {"jpt39c", "samsung-980-pro", "flash-tlc"} <= set(frame["model"])
    (disk,) = frame.filter(polars.col("model") == "jpt39c").to_dicts()
    assert (disk["kind"], disk["capacity"]) == ("disk", 10**12)
    assert disk["read_latency_ns"] > 1e6 > disk["read_iops"]
    assert models.table.schema.field("read_bytes_per_second").metadata == {b"unit": b"B/s"}
    # What nothing bounds is empty, and no 0.
    (null,) = frame.filter(polars.col("model") == "null").to_dicts()
    assert (null["capacity"], null["read_iops"]) == (None, None)
    assert "jpt39c" in models._repr_html_()
    assert list(models.to_pandas()["model"]) == frame["model"].to_list()
    for name in ("jpt39c", "flash-tlc", "samsung-980-pro"):
        named = stasis.simulate(name, workload="job.fio", size="1GiB", results="named", progress=False)
        table = stasis.simulate(stasis.model(name), workload="job.fio", size="1GiB", results="table", progress=False)
        assert table.ios.table.equals(named.ios.table), name
    changed = stasis.model("samsung-980-pro")
    changed["read"]["latency"] = "1ms"
    assert min(stasis.simulate(changed, workload="job.fio", progress=False).ios.latency_ns().to_pylist()) >= 1_000_000
    with pytest.raises(stasis.ProgramError, match="samsung-980-pro"):
        stasis.model("samsung-980-por")


def test_a_timeline_is_kept_where_that_is_asked(here: Path, flash: stasis.Result) -> None:
    result = stasis.simulate("flash-tlc", workload="job.fio", size="1GiB", timeline=True, results="t", progress=False)
    spans = result.timeline.to_polars()
    assert {"begin_ns", "end_ns", "what"} <= set(spans.columns)
    assert spans.filter(polars.col("kind") == "nand").height > 0
    with pytest.raises(stasis.ResultsError, match=r"timeline\.parquet is missing.*timeline=True"):
        _ = flash.timeline
    (here / "t" / "timeline.parquet").write_bytes(b"PAR1")
    with pytest.raises(stasis.ResultsError, match=r"cannot read .*timeline\.parquet"):
        _ = stasis.Result("t").timeline


def test_messages_name_what_was_given_and_command_lines_files_that_are_there(here: Path) -> None:
    wrong = stasis.Experiment(command=["true"], drives=[stasis.Drive("null", "ram:64MiB", queues="two")])  # type: ignore[arg-type]
    with pytest.raises(stasis.ProgramError, match=r'^<experiment>: line (\d+), .*\n \1 \| .*queues = "two"'):
        stasis.run(wrong, results="r", progress=False)
    with pytest.raises(stasis.ProgramError, match=r"^<workload>: line 3 \(`rw=radread`\): .*rw"):
        stasis.simulate(
            {"kind": "fixed", "read": "7us"},
            workload=JOB.replace("randread", "radread"),
            variables={"IOS": 9},
            results="s",
            progress=False,
        )
    # It repeats by its command line, and by what was written.
    result = stasis.simulate(
        {"kind": "fixed", "read": "7us"}, workload=JOB.replace("${IOS}", "9"), results="s", progress=False
    )
    words = result.summary["command_line"].split()
    assert [word for word in words if "/" in word and not Path(word).exists()] == []
    again = stasis.simulate("s/model.toml", workload="s/job.fio", results="again", progress=False)
    assert again.ios.table.equals(result.ios.table)


def test_a_file_of_the_users_is_not_written_over(here: Path) -> None:
    Path("model.toml").write_text("mine")
    for latency in (1, 2):
        result = stasis.simulate(
            {"kind": "fixed", "read": f"{latency}us"}, workload="job.fio", results=".", progress=False
        )
        assert set(result.ios.latency_ns().to_pylist()) == {latency * 1000}
    assert Path("model.toml").read_text() == "mine"
    assert sorted(path.name for path in here.glob("model*")) == ["model-2.toml", "model.toml"]
    Path("file").touch()
    with pytest.raises(stasis.ResultsError, match=r"cannot write model\.toml to file"):
        stasis.simulate({"kind": "fixed", "read": "7us"}, workload="job.fio", results="file", progress=False)
