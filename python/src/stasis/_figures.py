"""Figures of a summary as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

__all__ = ["figures_of", "operations_of", "schema_of"]

#: Units of columns, by their name's end.
_UNITS = {
    "_ns": "ns",
    "virtual_seconds": "s",
    "active_seconds": "s",
    "iops": "1/s",
    "bytes_per_second": "B/s",
    "bytes": "B",
}
#: Columns whose type is not that of their first value.
_KINDS = {"seed": pa.uint64()}
#: An operation's rates, and the time that they are over. Summaries of earlier versions have less.
RATES = ("active_seconds", "iops", "bytes_per_second")


def operations_of(summary: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """The drive, the operation and its figures, of each operation that has an I/O."""
    for drive in summary["drives"]:
        for operation, figures in drive.items():
            if isinstance(figures, dict) and figures.get("count"):
                yield drive, operation, figures


def figures_of(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each drive and operation that has an I/O, without figures that do not repeat."""
    rows = []
    for drive, operation, figures in operations_of(summary):
        row: dict[str, Any] = {
            "drive": drive["name"],
            "operation": operation,
            "exit_status": summary["exit_status"],
            "virtual_seconds": float(summary["virtual_seconds"]),
            "count": figures["count"],
            "bytes": figures["bytes"],
            "errors": figures["errors"],
            **{name: float(figures[name]) for name in RATES if name in figures},
        }
        for which in ("target_ns", "delivered_ns"):
            for name, value in figures[which].items():
                row[f"{which[:-3]}_{name}_ns"] = float(value)
        rows.append({**row, **_numbers(drive.get("inside", {}), "inside")})
    return rows


def _numbers(values: Any, name: str) -> dict[str, float]:
    """The numbers of a table, by their dotted names."""
    found: dict[str, float] = {}
    for key, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, dict):
            found.update(_numbers(value, f"{name}.{key}"))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[f"{name}.{key}"] = float(value)
    return found


def schema_of(rows: Iterable[Mapping[str, Any]], first: Iterable[str] = ()) -> pa.Schema:
    """The columns of all rows, with their units: those that some rows do not have are empty there.

    ``first`` names columns of texts that come before the others.
    """
    fields: dict[str, pa.DataType] = dict.fromkeys(first, pa.string())
    for row in rows:
        for name, value in row.items():
            if name not in fields:
                fields[name] = _KINDS.get(name) or {str: pa.string(), int: pa.int64(), float: pa.float64()}[type(value)]
    return pa.schema([pa.field(name, kind, metadata=_metadata(name)) for name, kind in fields.items()])


def _metadata(name: str) -> dict[str, str] | None:
    units = [unit for end, unit in _UNITS.items() if name.endswith(end) and not name.startswith("inside.")]
    return {"unit": units[0]} if units else None
