"""The keys of an experiment's tables, as the program describes them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional

import pyarrow as pa

from ._process import run_program
from .frame import Frame

if TYPE_CHECKING:
    from .experiment import Table

__all__ = ["described"]

_Node = Mapping[str, Any]


def described(table: type[Table]) -> Frame:
    """The keys of a table, see `Table.described`."""
    from .experiment import Experiment

    properties = _properties(_schema(), Experiment, table) or {}
    columns: dict[str, list[Optional[str]]] = {"field": [], "key": [], "meaning": [], "default": []}
    for key, each in table.key_fields().items():
        node = properties.get(key, {})
        columns["field"].append(each.name)
        columns["key"].append(key)
        columns["meaning"].append(_meaning(node))
        columns["default"].append(json.dumps(node["default"]) if node.get("default") is not None else None)
    return Frame(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}))


@functools.lru_cache(maxsize=1)
def _schema() -> _Node:
    from ._run import program

    command_line = [str(program()), "schema"]
    schema: _Node = json.loads(run_program(command_line).succeeded().output)
    return schema


def _forms(node: _Node) -> Iterator[_Node]:
    """A node without references, and those of which it is made."""
    while "$ref" in node:
        node = functools.reduce(lambda at, part: at[part], node["$ref"].removeprefix("#/").split("/"), _schema())
    yield node
    for each in (*node.get("anyOf", []), *node.get("oneOf", []), *([node["items"]] if "items" in node else [])):
        yield from _forms(each)


def _properties(node: _Node, here: type[Table], wanted: type[Table]) -> Optional[_Node]:
    """The properties of a table, below the node of another."""
    from .experiment import TABLES

    for form in _forms(node):
        properties: Optional[_Node] = form.get("properties")
        if properties is None:
            continue
        if here is wanted:
            return properties
        for key, each in here.key_fields().items():
            below = each.metadata.get("table")
            # A machine has no machines.
            if below and key in properties and TABLES[below] is not here:
                found = _properties(properties[key], TABLES[below], wanted)
                if found is not None:
                    return found
    return None


def _meaning(node: _Node) -> Optional[str]:
    for form in (node, *_forms(node)):
        if form.get("description"):
            return " ".join(str(form["description"]).split())
    return None
