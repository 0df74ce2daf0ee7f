"""A run's I/Os as a table in Arrow's memory format."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ._columns import TYPES, WORDS, with_units
from .errors import ResultsError
from .frame import Frame

__all__ = ["Ios", "find_ios", "read_ios", "read_timeline"]

#: Names of files that `find_ios` looks for, the quickest to read first.
FILES = ("ios.parquet", "ios.csv", "ios.csv.zst")


class Ios(Frame):
    """One row for each I/O, in the order of completion. A column's field has its unit and its meaning."""

    def __repr__(self) -> str:
        return f"<{len(self):,} I/Os: {', '.join(self.table.column_names)}>"

    def latency_ns(self, which: str = "delivered") -> pa.ChunkedArray:
        """Latencies (ns), one for each row: ``delivered`` to the guest, or as the model's ``target``.

        Raises ``KeyError`` for another ``which``.
        """
        import pyarrow.compute as pc

        return pc.subtract(self[f"{which}_ns"], self["submit_ns"])


def find_ios(folder: Path) -> Path:
    """The file with a run's I/Os.

    Raises ``ResultsError`` where the run kept none.
    """
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    raise ResultsError(f"{folder} has none of {', '.join(FILES)}: the run kept no I/Os (--ios none)")


@contextlib.contextmanager
def _small_pages() -> Iterator[None]:
    """Within this context, Arrow's memory comes from jemalloc, if that is present and the user
    chose nothing else.

    Its usual allocator, mimalloc, asks for huge pages. Where the host of a virtual machine has to
    find each of these first, the system takes 2.5 s of processor for 800 MB, ten times the time of
    reading; page by page 0.6 s.
    """
    before = pa.default_memory_pool()
    usual = before.backend_name == "mimalloc" and "ARROW_DEFAULT_MEMORY_POOL" not in os.environ
    if not usual or "jemalloc" not in pa.supported_memory_backends():
        yield
        before.release_unused()
        return
    pa.set_memory_pool(pa.jemalloc_memory_pool())
    try:
        yield
    finally:
        # Otherwise the memory of decoding would stay in use beside later data.
        pa.default_memory_pool().release_unused()
        pa.set_memory_pool(before)


#: Rows that are decoded at a time. All at once, the whole file is beside the columns, and memory
#: that Arrow's allocator keeps afterwards: 1.6 times the columns in place of 1.25.
_ROWS = 1 << 20


def _at_once(metadata: Any) -> Iterator[list[int]]:
    """The row groups of a file, as many together as have `_ROWS`."""
    groups: list[int] = []
    rows = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= _ROWS:
            yield groups
            groups, rows = [], 0
    if groups:
        yield groups


def _read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        # By file, not as a data set, which takes twice the processor time.
        with pa.parquet.ParquetFile(path, read_dictionary=WORDS) as file:
            parts = [file.read_row_groups(groups) for groups in _at_once(file.metadata)]
            return pa.concat_tables(parts) if parts else file.read()
    # Columns are known, so that nothing is guessed from the first rows.
    convert = pa.csv.ConvertOptions(column_types=TYPES, strings_can_be_null=False)
    read = pa.csv.ReadOptions(block_size=8 << 20)
    # Arrow takes the compression from the suffix .zst.
    return pa.csv.read_csv(path, read_options=read, convert_options=convert)


def read_ios(path: Path) -> Ios:
    """Reads a run's I/Os from ``ios.parquet``, ``ios.csv`` or ``ios.csv.zst``.

    Raises ``ResultsError`` for a file that is missing, cut off, or something else.
    """
    try:
        with _small_pages():
            table = _read(path)
    except FileNotFoundError as error:
        raise ResultsError(f"{path} is missing: was the run stopped before its first I/O?") from error
    except (pa.ArrowException, OSError) as error:
        raise ResultsError(
            f"cannot read {path}: {error}. The file is cut off or is none of a run's; run it again"
        ) from error
    if "submit_ns" not in table.column_names:
        raise ResultsError(f"{path} has no column submit_ns: it is none of a run's")
    return Ios(with_units(table))


def read_timeline(path: Path) -> Frame:
    """Reads a run's ``timeline.parquet``.

    Raises ``ResultsError`` for a file that is missing, cut off, or something else.
    """
    if not path.is_file():
        raise ResultsError(f"{path} is missing: the run kept no timeline; run it with `timeline=True`, or --timeline")
    try:
        return Frame(pa.parquet.ParquetFile(path).read())
    except (pa.ArrowException, OSError) as error:
        raise ResultsError(
            f"cannot read {path}: {error}. The file is cut off or is none of a run's; run it again"
        ) from error
