"""Several results beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Union

import pyarrow as pa

from . import plots
from .result import Result

if TYPE_CHECKING:
    import polars

__all__ = ["Comparison", "compare"]


class Comparison:
    """Results beside each other. Shows itself as plots in a notebook."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = list(results)

    @property
    def table(self) -> pa.Table:
        """One row for each result, drive and operation: the latency from the summary (ns)."""
        rows = [
            {
                "results": result.label,
                "drive": drive,
                "operation": operation,
                "count": figures["count"],
                "bytes": figures["bytes"],
                "errors": figures["errors"],
                **{name: float(value) for name, value in figures["delivered_ns"].items()},
            }
            for result in self.results
            for drive, operation, figures in result.operations()
        ]
        return pa.Table.from_pylist(rows)

    def to_polars(self) -> polars.DataFrame:
        """`table` as a frame of Polars."""
        import polars

        frame = polars.from_arrow(self.table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(each.label for each in self.results)}>"

    def _repr_html_(self) -> str:
        return plots.shown(self.results)


def compare(*results: Union[Result, str, Path], **named: Union[Result, str, Path]) -> Comparison:
    """Puts results beside each other; keywords name them: ``compare(disk=a, flash=b)``.

    Raises ``ResultsError`` for a folder without results.
    """

    def opened(each: Union[Result, str, Path], label: Union[str, None] = None) -> Result:
        if isinstance(each, Result) and label is None:
            return each
        folder = each.folder if isinstance(each, Result) else each
        return Result(folder, label=label)

    names: Mapping[str, Union[Result, str, Path]] = named
    return Comparison([*(opened(each) for each in results), *(opened(e, n) for n, e in names.items())])
