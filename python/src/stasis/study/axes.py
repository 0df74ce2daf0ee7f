"""Axes: which values a study gives to which keys, and which points these make."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import StudyError
from .where import Condition

__all__ = ["Values", "flattened", "points_of", "read_csv", "values_of"]

#: A point: the value of each axis.
Values = dict[str, Any]

_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})(?:\s*\.\.\s*({_NUMBER}))?\s*")
#: More values than this in one range are a slip of the pen.
_MOST = 1_000_000


def flattened(axes: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Axes by their dotted keys; in TOML `drive.ssd.model = [...]` makes tables in tables."""
    flat: dict[str, Any] = {}
    for key, value in axes.items():
        name = f"{before}.{key}" if before else str(key)
        if isinstance(value, Mapping) and set(value) != {"files"}:
            flat.update(flattened(value, name))
        else:
            flat[name] = value
    return flat


def values_of(name: str, said: Any, base: Path) -> list[Any]:
    """The values of an axis: a list, a range `1..10` or `0..1..0.25` with both ends, files, or one
    value.

    Raises `StudyError` for an axis without a value.
    """
    if isinstance(said, Mapping):
        return _files(name, said["files"], base)
    if isinstance(said, str) and (found := _RANGE.fullmatch(said)):
        return _range(name, *found.groups())
    if isinstance(said, (list, tuple, range)):
        values = [each for one in said for each in _one(name, one, base)]
        if not values:
            raise StudyError(f"the axis `{name}` has no values; give it some, or leave it out")
        # As texts: the words of a command line, and names of partitions, tell 1 and "1" as the same.
        texts = [str(each) for each in values]
        twice = [each for index, each in enumerate(values) if each in values[:index] or texts[index] in texts[:index]]
        if twice:
            raise StudyError(f"the axis `{name}` has the value {twice[0]!r} twice")
        return values
    return [said]


def _one(name: str, said: Any, base: Path) -> list[Any]:
    if isinstance(said, str) and _RANGE.fullmatch(said):
        return values_of(name, said, base)
    return [said]


def _range(name: str, first: str, last: str, step: str | None) -> list[Any]:
    whole = all("." not in each for each in (first, last, step or "1"))
    kind: Any = int if whole else float
    low, high, by = kind(first), kind(last), kind(step or "1")
    wrong = (
        "ends before it begins" if high < low
        else f"has the step {by}" if by <= 0
        else f"has more than {_MOST:,} values" if (high - low) / by > _MOST
        else ""
    )  # fmt: skip
    if wrong:
        raise StudyError(
            f"the axis `{name}` has the range {first}..{last}, which {wrong}; write FIRST..LAST or FIRST..LAST..STEP"
        )
    count = int((high - low) / by + 1e-9) + 1
    return [low + index * by if whole else round(low + index * by, 12) for index in range(count)]


def _files(name: str, patterns: Any, base: Path) -> list[str]:
    patterns = [patterns] if isinstance(patterns, str) else patterns
    found: list[str] = []
    for pattern in patterns:
        absolute = Path(pattern)
        root, rest = (Path("/"), str(absolute.relative_to("/"))) if absolute.is_absolute() else (base, pattern)
        paths = sorted(str(path) if absolute.is_absolute() else str(path.relative_to(base)) for path in root.glob(rest))
        if not paths:
            raise StudyError(f"the axis `{name}` names files `{pattern}`, but there is none in {root}")
        found += paths
    return found


def read_csv(path: Path) -> list[Values]:
    """Points from a CSV: the first row has keys, each other one a point. Numbers, `true` and
    `false` are read as such, other values as text.

    Raises `StudyError` with the line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise StudyError(f"cannot read the points in {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path} is no CSV of points: {error}") from error
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise StudyError(f"{path} has no points: its first row is keys, each other row a point")
    header = [name.strip() for name in rows[0]]
    twice = [name for index, name in enumerate(header) if name in header[:index]]
    if twice or "" in header:
        wrong = f"has the key `{twice[0]}` twice" if twice else "has an empty key"
        raise StudyError(f"{path}: the first row {wrong}; it names each column's key once")
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise StudyError(f"{path}: row {line} has {len(row)} of the {len(header)} values that the first row names")
    return [dict(zip(header, map(_value, row))) for row in rows[1:]]


def _value(text: str) -> Any:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def points_of(
    axes: Mapping[str, Sequence[Any]], listed: Sequence[Values], where: str | None, source: str = "the points"
) -> list[Values]:
    """Every combination of the axes' values with each listed point, without those that ``where``
    leaves out.

    Raises `StudyError` where a listed point and an axis, or two listed points, contradict each other.
    """
    for number, point in enumerate(listed, start=1):
        if set(point) != set(listed[0]):
            odd = sorted(set(point) ^ set(listed[0]))[0]
            raise StudyError(f"{source}: point {number} and point 1 do not both have `{odd}`")
        both = sorted(set(point) & set(axes))
        if both:
            raise StudyError(
                f"`{both[0]}` is {point[both[0]]!r} in {source}, and one of {list(axes[both[0]])!r} by the axis "
                f"`{both[0]}`; take one of the two away"
            )
        if point in listed[: number - 1]:
            raise StudyError(f"{source}: point {number} is point {list(listed).index(point) + 1} again; take one away")
    grid = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    points = [{**point, **values} for point in (listed or [{}]) for values in grid]
    if where is not None:
        condition = Condition(where, list(points[0]))
        points = [point for point in points if condition(point)]
        if not points:
            raise StudyError(f"where = {where!r} leaves no point")
    return points
