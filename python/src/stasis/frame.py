"""Tables in Arrow's memory format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Frame"]

#: Rows that a notebook shows of a table.
_SHOWN = 30


class Frame:
    """A table. Whatever takes Arrow's C stream (Polars, DuckDB, pandas, pyarrow) takes this.

    Shows its first rows in a notebook.
    """

    def __init__(self, table: pa.Table) -> None:
        #: The table. A column's field may have its ``unit`` and ``description`` as metadata.
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return f"<{len(self):,} rows: {', '.join(self.table.column_names)}>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        """The column of this name. Raises ``KeyError`` where there is none."""
        return self.table.column(column)

    @property
    def schema(self) -> pa.Schema:
        """The columns' names, types and metadata."""
        return self.table.schema

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows, each with its values by the columns' names; ``None`` where there is none."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """The same as a frame of pandas, with Arrow's types: whole numbers stay whole where some are
        missing, and nothing is copied.

        ``options`` are those of ``pyarrow.Table.to_pandas``.
        """
        import pandas

        frame: pandas.DataFrame = self.table.to_pandas(types_mapper=pandas.ArrowDtype, **options)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The same as a frame of Polars, which shares the memory of the columns."""
        import polars

        # One chunk for each column would be a copy.
        frame = polars.from_arrow(self.table, rechunk=False)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def _repr_html_(self) -> str:
        from .plots import html_table

        names = self.table.column_names
        rows = [[each[name] for name in names] for each in self.table.slice(0, _SHOWN).to_pylist()]
        shown = html_table(names, [["–" if cell is None else cell for cell in row] for row in rows])
        return shown if len(self) <= _SHOWN else f"{shown}<p>{_SHOWN} of {len(self):,} rows</p>"
