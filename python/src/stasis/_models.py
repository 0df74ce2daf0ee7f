"""The named drives."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from ._process import run_program
from .errors import ProgramError
from .frame import Frame

__all__ = ["model", "models"]

#: The table's columns: name, type, unit, and the place in the program's JSON.
_COLUMNS: tuple[tuple[str, pa.DataType, str, tuple[str, ...]], ...] = (
    ("model", pa.string(), "", ("name",)),
    ("kind", pa.string(), "", ("kind",)),
    ("capacity", pa.uint64(), "B", ("capacity",)),
    *(
        (f"{operation}_{name}", kind, unit, ("delivers", operation, key))
        for operation in ("read", "write")
        for name, kind, unit, key in (
            ("latency_ns", pa.float64(), "ns", "latency_ns"),
            ("iops", pa.float64(), "1/s", "iops"),
            ("bytes_per_second", pa.float64(), "B/s", "bandwidth"),
        )
    ),
    ("year", pa.int64(), "", ("year",)),
    ("summary", pa.string(), "", ("summary",)),
    ("source", pa.string(), "", ("source",)),
    ("assumptions", pa.string(), "", ("assumptions",)),
    ("holds", pa.string(), "", ("ends",)),
)


def models() -> Frame:
    """The named drives, one row for each, as ``stasis models`` lists them.

    Columns: ``model``, the name that `simulate` and `Drive` take; ``kind``; ``capacity`` (B), empty
    where a drive may have any size; ``read_latency_ns`` and ``write_latency_ns`` of 4 KiB at queue
    depth 1; ``read_iops``, ``read_bytes_per_second`` and the same of writes, the most that it
    delivers, empty where nothing bounds them; ``year``, ``summary``, ``source``, ``assumptions``;
    ``holds``, the limits within which the figures hold.

    Raises `ProgramError` and `ProgramNotFound`.
    """
    found = _asked()
    fields = [pa.field(name, kind, metadata={"unit": unit} if unit else None) for name, kind, unit, _ in _COLUMNS]
    columns = [
        pa.array([_at(each, place) for each in found], type=kind, from_pandas=True) for _, kind, _, place in _COLUMNS
    ]
    return Frame(pa.Table.from_arrays(columns, schema=pa.schema(fields)))


def model(name: str) -> dict[str, Any]:
    """A named drive's model as a table, to change and to pass to `simulate` or `Drive`.

    ``name``: one of the column ``model`` of `models`. Keys and units are those of
    ``stasis models NAME``.

    Raises `ProgramError` for a name that is none of `models`.
    """
    table: dict[str, Any] = _asked(name)["model"]
    # TOML has no null, and a key that is left out has its default.
    return {key: value for key, value in table.items() if value is not None}


def _asked(*words: str) -> Any:
    from ._run import program

    command_line = [str(program()), "models", *words, "--json"]
    done = run_program(command_line)
    if done.status != 0:
        raise ProgramError(done.message(), status=done.status, command_line=command_line)
    return json.loads(done.output)


def _at(values: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        values = values.get(key) if values is not None else None
    return values
