"""I/Os as Arrow's columns."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

import stasis
from stasis.ios import read_ios


@pytest.fixture
def result(here: Path) -> stasis.Result:
    return stasis.simulate("samsung-980-pro", workload="job.fio", results="r", ios="csv", progress=False)


def test_columns_have_types_and_units(result: stasis.Result) -> None:
    schema = result.ios.table.schema
    assert schema.field("submit_ns").type == pa.uint64()
    assert schema.field("submit_ns").metadata[b"unit"] == b"ns"
    assert schema.field("lba").metadata[b"unit"] == b"512 B"
    assert result.ios["operation"].unique().to_pylist() == ["read"]


def test_polars_shares_the_memory_of_the_columns(result: stasis.Result) -> None:
    column = result.ios["submit_ns"].chunk(0)
    series = result.ios.to_polars()["submit_ns"]
    assert series.to_arrow().buffers()[1].address == column.buffers()[1].address
    assert series.dtype == polars.UInt64


def test_pandas_shares_the_memory_of_the_columns(result: stasis.Result) -> None:
    column = result.ios["submit_ns"].chunk(0)
    frame = result.ios.to_pandas()
    inside = frame["submit_ns"].array.__arrow_array__()
    chunk = inside.chunk(0) if isinstance(inside, pa.ChunkedArray) else inside
    assert chunk.buffers()[1].address == column.buffers()[1].address


def test_duckdb_and_polars_take_it_as_a_stream(result: stasis.Result) -> None:
    ios = result.ios
    assert duckdb.sql("select count(*), min(delivered_ns - submit_ns) > 0 from ios").fetchall() == [(1000, True)]
    assert polars.DataFrame(ios).height == 1000


def test_csv_zst_and_parquet_hold_the_same(here: Path, result: stasis.Result) -> None:
    for form in ("zst", "parquet"):
        other = stasis.simulate("samsung-980-pro", workload="job.fio", results=form, ios=form, progress=False)
        # Of Parquet it is known that no value is missing.
        assert other.ios.table.to_pydict() == result.ios.table.to_pydict(), form
    pyarrow.parquet.write_table(result.ios.table, "ios.parquet")
    assert read_ios(Path("ios.parquet")).table.equals(result.ios.table)


def test_reading_leaves_arrow_s_memory_pool_as_it_was(result: stasis.Result) -> None:
    before = pa.default_memory_pool().backend_name
    used = pa.jemalloc_memory_pool().bytes_allocated() if "jemalloc" in pa.supported_memory_backends() else None
    ios = result.ios
    assert pa.default_memory_pool().backend_name == before
    if used is not None and before == "mimalloc":
        assert pa.jemalloc_memory_pool().bytes_allocated() - used >= ios["submit_ns"].nbytes


def test_a_parquet_file_that_is_cut_off_is_named(here: Path, result: stasis.Result) -> None:
    pyarrow.parquet.write_table(result.ios.table, "ios.parquet")
    whole = Path("ios.parquet").read_bytes()
    for length in (0, 4, len(whole) // 2, len(whole) - 1):
        Path("ios.parquet").write_bytes(whole[:length])
        with pytest.raises(stasis.ResultsError, match=r"ios\.parquet.*run it again"):
            read_ios(Path("ios.parquet"))


def test_what_is_no_table_of_ios_is_named(here: Path, result: stasis.Result) -> None:
    for text in ("", "a,b\n1,2\n", "submit_ns\nxyz\n"):
        Path("ios.csv").write_text(text)
        with pytest.raises(stasis.ResultsError, match=r"ios\.csv"):
            read_ios(Path("ios.csv"))
    none = stasis.simulate("null", workload="job.fio", results="n", ios="none", progress=False)
    with pytest.raises(stasis.ResultsError, match="kept no I/Os"):
        _ = none.ios
    Path("n/summary.json").write_text("[")
    with pytest.raises(stasis.ResultsError, match=r"summary\.json"):
        stasis.Result("n")


def test_row_groups_are_read_some_at_a_time(result: stasis.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = result.ios.table
    monkeypatch.setattr("stasis.ios._ROWS", 150)
    for size in (100, 1000):
        path = result.folder / "ios.parquet"
        pyarrow.parquet.write_table(whole, path, row_group_size=size)
        assert read_ios(path).table.equals(whole)
    pyarrow.parquet.write_table(whole.slice(0, 0), path)
    assert len(read_ios(path)) == 0
