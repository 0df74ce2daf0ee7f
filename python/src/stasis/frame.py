"""Tables in Arrow's memory format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Frame", "pandas_of", "polars_of"]

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

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """The same as a frame of pandas, with Arrow's types, so that nothing is copied.

        ``options`` are those of ``pyarrow.Table.to_pandas``.
        """
        import pandas

        return self.table.to_pandas(types_mapper=pandas.ArrowDtype, **options)

    def to_polars(self) -> polars.DataFrame:
        """The same as a frame of Polars, which shares the memory of the columns."""
        return polars_of(self.table)

    def _repr_html_(self) -> str:
        from .plots import html_table

        names = self.table.column_names
        rows = [[each[name] for name in names] for each in self.table.slice(0, _SHOWN).to_pylist()]
        shown = html_table(names, [["–" if cell is None else cell for cell in row] for row in rows])
        return shown if len(self) <= _SHOWN else f"{shown}<p>{_SHOWN} of {len(self):,} rows</p>"


def pandas_of(table: pa.Table) -> pandas.DataFrame:
    """A table as a frame of pandas, with NumPy's types."""
    return table.to_pandas()


def polars_of(table: pa.Table) -> polars.DataFrame:
    """A table as a frame of Polars, which shares the memory of the columns."""
    import polars

    # One chunk for each column would be a copy.
    frame = polars.from_arrow(table, rechunk=False)
    assert isinstance(frame, polars.DataFrame)
    return frame
