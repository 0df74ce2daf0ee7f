"""The results of many runs together."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Union

import pyarrow as pa

from ._figures import figures_of, schema_of
from .errors import ResultsError
from .frame import Frame
from .ios import Ios
from .result import Result, is_results

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Collection", "Results", "collect", "results_of"]

AnyPath = Union[str, Path]
#: The results of a run, or of several: results, folders, and lists of these.
Results = Union[Result, AnyPath, Iterable[Union[Result, AnyPath]]]


class Collection:
    """The results of several runs as one table."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        #: The results, by the labels that the column ``results`` has.
        self.results = dict(results)

    @functools.cached_property
    def figures(self) -> Frame:
        """One row for each result, drive and operation that has an I/O.

        Columns: ``results``, the label; ``folder``; ``model`` and ``seed``; ``drive`` and
        ``operation``; ``exit_status``; ``virtual_seconds`` (s); ``count``, ``bytes`` and
        ``errors``; ``active_seconds`` (s), from the operation's first submission to its last
        completion, or those of the mix of which it is a part; ``iops`` (1/s) and
        ``bytes_per_second`` (B/s), over this time; ``target_p99_ns``,
        ``delivered_p99_ns`` and other statistics of latency (ns);
        ``inside.``..., what a drive tells of itself, such as ``inside.write_amplification``.
        """
        rows = []
        for label, result in self.results.items():
            models = {drive["name"]: str(drive.get("model", "")) for drive in result.summary["drives"]}
            about = {"results": label, "folder": str(result.folder)}
            seed = {"seed": result.summary["seed"]} if "seed" in result.summary else {}
            rows += [{**about, "model": models[row["drive"]], **seed, **row} for row in figures_of(result.summary)]
        return Frame(pa.Table.from_pylist(rows, schema=schema_of(rows, first=("results", "folder", "model"))))

    @functools.cached_property
    def ios(self) -> Ios:
        """Every I/O of every result, with the label as the column ``results``.

        Raises `ResultsError` where one has kept no I/Os.
        """
        tables = []
        for label, result in self.results.items():
            table = result.ios.table
            labels = pa.DictionaryArray.from_arrays(pa.nulls(len(table), pa.int32()).fill_null(0), pa.array([label]))
            tables.append(table.add_column(0, "results", labels))
        # Files of different versions may differ in their last columns.
        return Ios(pa.concat_tables(tables, promote_options="default").unify_dictionaries())

    def to_pandas(self) -> pandas.DataFrame:
        """`figures` as a frame of pandas."""
        return self.figures.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """`figures` as a frame of Polars."""
        return self.figures.to_polars()

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        labels = list(self.results)
        return f"<Collection of {len(labels):,} results: {', '.join(labels[:8])}{', ...' if len(labels) > 8 else ''}>"

    def _repr_html_(self) -> str:
        from . import plots

        return plots.figures_table(list(self.results.values()))


def collect(*results: Results, **named: Results) -> Collection:
    """The results of many runs as one table.

    Each argument is a `Result`, a folder of results, a folder that has such folders anywhere below
    it (as ``stasis sim --seed 1-10`` leaves one, or a study), or a list of these; a keyword labels
    its results: ``collect("base", tuned=["a", "b"])`` has ``base``, ``tuned/a`` and ``tuned/b``.

    Raises `ResultsError` for a folder without results, and where there is nothing to collect.
    """
    found: dict[str, Result] = {}

    def add(label: str, result: Result) -> None:
        unique, number = label, 2
        while unique in found:
            unique, number = f"{label}-{number}", number + 1
        found[unique] = Result(result.folder, output=result.output, label=unique)

    for each in results:
        for result in results_of(each):
            add(result.label, result)
    for name, each in named.items():
        several = results_of(each)
        for result in several:
            add(name if len(several) == 1 else f"{name}/{result.label}", result)
    if not found:
        raise ResultsError("there are no results to collect; name a folder of results, or several")
    return Collection(found)


def results_of(given: Results) -> list[Result]:
    """The results that are meant, those of a folder of folders in the order of their names."""
    if isinstance(given, Result):
        return [given]
    if not isinstance(given, (str, Path)):
        return [result for each in given for result in results_of(each)]
    folder = Path(given)
    below = [] if is_results(folder) else _below(folder)
    if not below:
        return [Result(folder)]
    return [Result(each, label=str(each.relative_to(folder))) for each in below]


def _below(folder: Path) -> list[Path]:
    """The folders of results below one, in the order of their names; of results no folder below."""
    found: list[Path] = []
    for each in sorted(folder.iterdir(), key=_in_order) if folder.is_dir() else ():
        if each.is_dir():
            found += [each] if is_results(each) else _below(each)
    return found


def _in_order(path: Path) -> tuple[int, str]:
    """Names that begin with a number in the order of the numbers."""
    digits = path.name[: len(path.name) - len(path.name.lstrip("0123456789"))]
    return (int(digits) if digits else -1, path.name)
