"""The paths that an experiment or a model names."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

#: Media that are files, by the key that names them.
MEDIA = ("file", "qcow2", "ordered")
#: Replacement of a path, given the path and its kind: an input, which is read only, or a medium,
#: which the run also writes.
Change = Callable[[str, str], str]


def with_paths(values: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """The experiment's table with each path replaced by ``change(path, what)``; ``what`` is
    ``"input"``, or ``"medium"`` for a file that the run also writes."""
    table = copy.deepcopy(dict(values))
    machines = table.get("machine", {})
    machines = [machines] if isinstance(machines, dict) else machines
    for drive in [*table.get("drive", []), *(d for m in machines for d in m.get("drive", []))]:
        if "model" in drive:
            drive["model"] = model_with_paths(drive["model"], change)
        if "medium" in drive:
            drive["medium"] = _medium(drive["medium"], change)
    for disk in (disk for machine in machines for disk in machine.get("disk", [])):
        if "image" in disk:
            disk["image"] = change(disk["image"], "medium")
    for load in table.get("workload", []):
        if "job-file" in load:
            load["job-file"] = change(load["job-file"], "input")
    guest = table.get("guest", {})
    if "stdin" in guest:
        guest["stdin"] = change(guest["stdin"], "input")
    for key in ("files", "templates"):
        if key in guest:
            guest[key] = [_file(word, change) for word in guest[key]]
    return table


def _file(word: str, change: Change) -> str:
    source, colon, destination = word.partition(":")
    return change(source, "input") + colon + destination


def model_with_paths(model: Any, change: Change) -> Any:
    """The same of a model: a profile's file."""
    if isinstance(model, str) and model.startswith("profile:"):
        return "profile:" + change(model[len("profile:") :], "input")
    if isinstance(model, dict) and isinstance(model.get("file"), str):
        return {**model, "file": change(model["file"], "input")}
    if isinstance(model, dict) and isinstance(model.get("base"), str):
        return {**model, "base": model_with_paths(model["base"], change)}
    return model


def _medium(medium: Any, change: Change) -> Any:
    if isinstance(medium, dict):
        return {
            key: change(value, "medium") if key in MEDIA and isinstance(value, str) else value
            for key, value in medium.items()
        }
    if isinstance(medium, str):
        kind, colon, path = medium.partition(":")
        if colon and kind in MEDIA:
            return f"{kind}:{change(path, 'medium')}"
    return medium


def absolute(base: Path) -> Change:
    """Makes paths absolute that start at ``base``."""
    return lambda path, _what: str(base / path)
