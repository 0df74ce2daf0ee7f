"""The columns of ``ios.csv`` and ``ios.parquet``, with their units, as ``stasis schema results`` describes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

#: ``results.json`` is the program's own description; a test of the program compares the two.
SCHEMA: dict[str, Any] = json.loads((Path(__file__).parent / "results.json").read_text())

_WORD = pa.dictionary(pa.int32(), pa.string())
_TYPES: dict[str, pa.DataType] = {
    "word": _WORD,
    "uint64": pa.uint64(),
    "uint16": pa.uint16(),
    "bool": pa.bool_(),
}

TYPES: dict[str, pa.DataType] = {column["name"]: _TYPES[column["type"]] for column in SCHEMA["columns"]}

#: Columns of few different words.
WORDS: list[str] = [name for name, kind in TYPES.items() if kind == _WORD]

#: Fields of a summary that depend on the wall clock, the machine or the build.
INCIDENTAL_FIELDS: frozenset[str] = frozenset(SCHEMA["incidental_fields"])


def with_units(table: pa.Table) -> pa.Table:
    """The same columns, whose metadata has the unit and the meaning of each."""
    known = {column["name"]: {"unit": column["unit"], "description": column["meaning"]} for column in SCHEMA["columns"]}
    fields = [
        # The file's metadata of a column takes precedence over this table's.
        each.with_metadata({**known.get(each.name, {}), **_texts(each.metadata)})
        for each in table.schema
    ]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))


def _texts(metadata: object) -> dict[str, str]:
    if not isinstance(metadata, dict):
        return {}
    return {key.decode(): value.decode() for key, value in metadata.items()}
