"""The columns of ``ios.csv`` and ``ios.parquet``, with their units."""

from __future__ import annotations

import pyarrow as pa

_WORD = pa.dictionary(pa.int32(), pa.string())

#: Name, type, unit and meaning of each column: types are those of ios.parquet (docs/reference/results.md).
COLUMNS: list[tuple[str, pa.DataType, str, str]] = [
    ("drive", _WORD, "", "the drive's name"),
    ("phase", _WORD, "", "boot until the command begins, then command"),
    ("operation", _WORD, "", "read, write, flush, discard, write-zeroes, ..."),
    ("lba", pa.uint64(), "512 B", "where it begins"),
    ("bytes", pa.uint64(), "B", "its length"),
    ("queue", pa.uint16(), "", "the queue that it came by"),
    ("submit_ns", pa.uint64(), "ns", "virtual time when it was taken from its queue"),
    ("target_ns", pa.uint64(), "ns", "virtual time when the model wanted it done"),
    ("delivered_ns", pa.uint64(), "ns", "virtual time when the guest could see it done"),
    ("status", _WORD, "", "ok, error or refused"),
    ("fua", pa.bool_(), "", "whether it is durable before it is acknowledged"),
    ("stream", pa.uint16(), "", "stream or placement identifier, 0 for none"),
    ("priority", pa.uint16(), "", "I/O priority as Linux numbers it"),
    ("source_lba", pa.uint64(), "512 B", "where a copy takes its contents from"),
    ("order", pa.uint64(), "", "its number among the submissions to its drive"),
    ("code", pa.uint16(), "", "what the guest was told: of NVMe the status code type and code"),
]

TYPES: dict[str, pa.DataType] = {name: kind for name, kind, _, _ in COLUMNS}

#: Columns of few different words.
WORDS: list[str] = [name for name, kind, _, _ in COLUMNS if kind == _WORD]


def with_units(table: pa.Table) -> pa.Table:
    """The same columns, whose metadata has what is known of them."""
    known = {name: {"unit": unit, "description": what} for name, _, unit, what in COLUMNS}
    fields = [
        # What the file says of a column counts more than what is known here.
        each.with_metadata({**known.get(each.name, {}), **_texts(each.metadata)})
        for each in table.schema
    ]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))


def _texts(metadata: object) -> dict[str, str]:
    if not isinstance(metadata, dict):
        return {}
    return {key.decode(): value.decode() for key, value in metadata.items()}
