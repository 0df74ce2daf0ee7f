"""Jobs of the program for points: an experiment or a simulation as one table."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from ..errors import ExperimentError, StudyError
from ..experiment import TABLES, Experiment, Table, unknown_key

__all__ = ["SIMULATE", "placed", "with_value", "with_variables"]

#: The keys of ``[simulate]``: the options of ``stasis sim``.
SIMULATE = (
    "model", "workload", "trace", "trace-drive", "scale", "closed", "exact-times",
    "think-times", "wrap", "size", "block-size", "seed", "path", "limit", "expect",
)  # fmt: skip
#: Tables whose keys only the program checks.
_FREE = ("model", "medium", "scheduler", "variable")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


def with_value(job: Mapping[str, Any], kind: str, key: str, value: Any) -> dict[str, Any]:
    """The job with a value at a dotted key, such as `drive.ssd.model.gc.policy`; `variable.NAME` is
    the value of `${NAME}`.

    Raises `StudyError` for an unknown key.
    """
    changed = copy.deepcopy(dict(job))
    try:
        _set(changed, kind, key.split("."), value)
    except (ExperimentError, StudyError) as error:
        raise StudyError(f"the axis `{key}`: {error}") from error
    return changed


def _set(table: dict[str, Any], kind: str, parts: list[str], value: Any) -> None:
    if parts[0] == "variable":
        if len(parts) != 2:
            raise StudyError("write variable.NAME")
        table.setdefault("variable", {})[parts[1]] = value
        return
    if kind == "sim":
        if parts[0] not in SIMULATE:
            raise StudyError(unknown_key(parts[0], dict.fromkeys(SIMULATE), "[simulate]"))
        _free(table, parts, value)
        return
    _known(table, Experiment, parts, value)


def _known(table: dict[str, Any], kind: type[Table], parts: list[str], value: Any) -> None:
    """Sets a value in a table whose keys are known."""
    key, rest = parts[0], parts[1:]
    keys = kind.key_fields()
    if key not in keys or (kind is Experiment and key == "results"):
        raise StudyError(unknown_key(key, keys, kind.PLACE))
    below = keys[key].metadata.get("table")
    if not rest:
        table[key] = value
    elif key in _FREE:
        _free(table, parts, value)
    elif below is None:
        raise StudyError(f"`{key}` is a value and has no `{rest[0]}` in it")
    elif isinstance(table.get(key), list):
        chosen, rest = _chosen(table[key], TABLES[below], key, rest)
        if not rest:
            raise StudyError(f"`{'.'.join(parts)}` is a table; name a key in it")
        _known(chosen, TABLES[below], rest, value)
    else:
        _known(table.setdefault(key, {}), TABLES[below], rest, value)


def _chosen(
    tables: list[dict[str, Any]], kind: type[Table], key: str, parts: list[str]
) -> tuple[dict[str, Any], list[str]]:
    """The table of several that is meant, by its name or its place; the only one may stay unsaid."""
    names = [str(table.get("name", f"{key}{index}")) for index, table in enumerate(tables)]
    if parts[0] in names:
        return tables[names.index(parts[0])], parts[1:]
    if parts[0].isdigit() and int(parts[0]) < len(tables):
        return tables[int(parts[0])], parts[1:]
    if len(tables) == 1 and parts[0] in kind.key_fields():
        return tables[0], parts
    raise StudyError(f"there is no {key} `{parts[0]}`; there is {', '.join(f'`{name}`' for name in names)}")


def _free(table: dict[str, Any], parts: list[str], value: Any) -> None:
    """Sets a value below a key whose table only the program checks."""
    for index, part in enumerate(parts[:-1]):
        below = table.get(part)
        if below is None:
            below = {}
        elif isinstance(below, str) and part == "model":
            # A name from `stasis models`, and the values that differ from that model.
            below = {"base": below}
        elif not isinstance(below, dict):
            raise StudyError(f"`{'.'.join(parts[: index + 1])}` is {below!r}, and has no `{parts[index + 1]}` in it")
        table[part] = below
        table = below
    table[parts[-1]] = value


def with_variables(job: Mapping[str, Any]) -> dict[str, Any]:
    """The job with each `${NAME}` of its texts replaced where NAME is a variable of the study."""
    variables = {name: str(value) for name, value in job.get("variable", {}).items()}

    def replaced(value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), value)
        if isinstance(value, dict):
            return {key: replaced(each) for key, each in value.items()}
        if isinstance(value, list):
            return [replaced(each) for each in value]
        return value

    rest = {key: value for key, value in job.items() if key != "variable"}
    changed: dict[str, Any] = replaced(rest)
    if variables:
        changed["variable"] = variables
    return changed


def placed(value: Any) -> Any:
    """A job whose inputs, `@NAME`, are below the folder ``inputs``. The path is relative, so that
    no result has the name of the folder that a point was computed in."""
    if isinstance(value, str):
        return "inputs/" + value[1:] if value.startswith("@") else value.replace(":@", ":inputs/", 1)
    if isinstance(value, dict):
        return {key: placed(each) for key, each in value.items()}
    return [placed(each) for each in value] if isinstance(value, list) else value
