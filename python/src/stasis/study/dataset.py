"""A study's results together: Parquet, partitioned by the axes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from .._figures import figures_of, schema_of
from ..errors import ResultsError
from ..result import read_json
from .axes import Values
from .points import Point

__all__ = ["read_dataset", "write_dataset"]

#: The longest name of a partition; a file system's limit is 255 bytes (NAME_MAX).
_LONGEST = 200


def write_dataset(folder: Path, finished: Sequence[Point], ios: bool) -> None:
    """Writes ``figures`` and, where points kept their I/Os, ``ios``, each at once."""
    rows = {point.key: figures_of(read_json(folder / "points" / point.key / "summary.json")) for point in finished}
    schema = schema_of((row for point in rows.values() for row in point), first=("point",))
    with _replaced(folder / "figures") as figures:
        for point in finished:
            to = figures / _partition(point.values) / f"{point.key[:16]}.parquet"
            to.parent.mkdir(parents=True, exist_ok=True)
            filled = [{"point": point.key, **row} for row in rows[point.key]]
            pa.parquet.write_table(pa.Table.from_pylist(filled, schema=schema), to)
    if not ios:
        return
    with _replaced(folder / "ios") as all_ios:
        for point in finished:
            to = all_ios / _partition(point.values) / f"{point.key[:16]}.parquet"
            to.parent.mkdir(parents=True, exist_ok=True)
            _link(folder / "points" / point.key / "ios.parquet", to)


class _replaced:
    """A folder that takes another's place once it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._new = folder.with_name(f".{folder.name}.new")

    def __enter__(self) -> Path:
        shutil.rmtree(self._new, ignore_errors=True)
        self._new.mkdir()
        return self._new

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.rename(self._new, self._folder)
        else:
            shutil.rmtree(self._new, ignore_errors=True)


def _link(source: Path, to: Path) -> None:
    try:
        os.link(source, to)
    except OSError:
        shutil.copyfile(source, to)


def _partition(values: Values) -> Path:
    """`axis=value/...`, as Hive writes it."""
    parts = [
        f"{quote(name, safe='.-_')}={quote(_text(value), safe='.-_')[:_LONGEST]}" for name, value in values.items()
    ]
    return Path(*parts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def read_dataset(folder: Path) -> pa.Table:
    """The data set below a folder as one table, axes among its columns.

    Raises `ResultsError` where it is not there, or a file of it is cut off.
    """
    if not folder.is_dir():
        raise ResultsError(f"{folder} is missing: the study kept none, or has not been run")
    try:
        return pa.dataset.dataset(folder, partitioning="hive").to_table()
    except (pa.ArrowException, OSError) as error:
        raise ResultsError(f"cannot read {folder}: {_damaged(folder) or error}") from error


def _damaged(folder: Path) -> str:
    """Names a file of a data set that is cut off or damaged, with advice; empty if none is."""
    for path in sorted(folder.rglob("*.parquet")):
        try:
            pa.parquet.ParquetFile(path).read()
        except (pa.ArrowException, OSError):
            what = f"{path.relative_to(folder)} is cut off or damaged"
            if folder.name == "figures":
                return f"{what}; run the study again: what is finished stays, and the data set is made anew"
            point = f"{folder.parent / 'points' / path.stem}*"
            return f"{what}, and so is the point: remove {point}, and run the study again. All others stay"
    return ""
