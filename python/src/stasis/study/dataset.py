"""A study's results together: Parquet, partitioned by the axes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from .._figures import figures_of, schema_of
from ..errors import ResultsError
from ..result import read_json
from .axes import Values
from .points import Point

if TYPE_CHECKING:
    import xarray

__all__ = ["dataset_of", "read_dataset", "write_dataset"]

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


def _kind(values: Sequence[Any]) -> pa.DataType:
    """The type of an axis's column."""
    if all(isinstance(value, bool) for value in values):
        return pa.bool_()
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
        return pa.string()
    if any(isinstance(value, float) for value in values):
        return pa.float64()
    return pa.uint64() if min(values) >= 0 and max(values) >= 1 << 63 else pa.int64()


def read_dataset(folder: Path, points: Sequence[Values] = ()) -> pa.Table:
    """The data set below a folder as one table. Among its columns are the axes, whose values in
    ``points`` say of which type each is: a folder's name is a text.

    Raises `ResultsError` where it is not there, or a file of it is cut off.
    """
    if not folder.is_dir():
        raise ResultsError(f"{folder} is missing: the study kept none, or has not been run")
    try:
        axes = [pa.field(name, _kind([values[name] for values in points])) for name in (points[0] if points else ())]
        partitioning = pa.dataset.partitioning(pa.schema(axes), flavor="hive") if axes else "hive"
        return pa.dataset.dataset(folder, partitioning=partitioning).to_table()
    except (pa.ArrowException, OSError) as error:
        raise ResultsError(f"cannot read {folder}: {_damaged(folder) or error}") from error


def dataset_of(table: pa.Table, axes: Sequence[str]) -> xarray.Dataset:
    """The numbers of a study's ``figures``, over its axes, its drives and its operations."""
    import numpy
    import xarray

    last = [name.rsplit(".", 1)[-1] for name in axes]
    short = {name: end if last.count(end) == 1 else name for name, end in zip(axes, last)}
    names = [*axes, *(name for name in ("drive", "operation") if name not in axes)]
    coordinates, places = {}, []
    for name in names:
        encoded = table.column(name).combine_chunks().dictionary_encode()
        values = encoded.dictionary.to_pylist()
        order = sorted(range(len(values)), key=lambda at: values[at])
        ranks = numpy.empty(len(order), dtype=numpy.int64)
        ranks[order] = range(len(order))
        coordinates[short.get(name, name)] = [values[at] for at in order]
        places.append(ranks[encoded.indices.to_numpy()])
    variables = {}
    for field in table.schema:
        is_number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
        if field.name in names or not is_number:
            continue
        cells = numpy.full([len(values) for values in coordinates.values()], numpy.nan)
        column = table.column(field.name).cast(pa.float64(), safe=False).combine_chunks()
        cells[tuple(places)] = column.to_numpy(zero_copy_only=False)
        unit = (field.metadata or {}).get(b"unit")
        variables[field.name] = (list(coordinates), cells, {"units": unit.decode()} if unit else {})
    return xarray.Dataset(variables, coordinates)


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
