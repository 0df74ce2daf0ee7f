"""Everything public is described, with its parameters and its types."""

from __future__ import annotations

import dataclasses
import inspect
import typing

import pytest

import stasis
from stasis.experiment import Table

_FUNCTIONS = sorted(
    name for name in stasis.__all__ if inspect.isfunction(getattr(stasis, name)) and not name.endswith("_async")
)
_CLASSES = sorted(name for name in stasis.__all__ if inspect.isclass(getattr(stasis, name)))


def _named(text: str, parameter: str) -> bool:
    """Whether a description has a parameter: in code, alone or as the first word of it."""
    return any(f"``{parameter}{end}" in text for end in ("`", "=", ":", ","))


def _undocumented(function: typing.Callable[..., object], text: str) -> list[str]:
    """The parameters without a description or a type, but those that stand for any."""
    signature = inspect.signature(function)
    wrong = []
    for name, parameter in signature.parameters.items():
        if name in ("self", "cls") or name.startswith("_"):
            continue
        if parameter.annotation is inspect.Parameter.empty:
            wrong.append(f"{name} has no type")
        several = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if not several and not _named(text, name):
            wrong.append(f"{name} is not described")
    if signature.return_annotation is inspect.Signature.empty:
        wrong.append("the result has no type")
    return wrong


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_function_describes_its_parameters_and_errors(name: str) -> None:
    function = getattr(stasis, name)
    text = inspect.getdoc(function) or ""
    assert _undocumented(function, text) == []
    assert name == "executable" or "Raises `" in text, "no error is named"


@pytest.mark.parametrize("name", _CLASSES)
def test_a_class_describes_itself_and_what_it_can_do(name: str) -> None:
    kind = getattr(stasis, name)
    text = inspect.getdoc(kind) or ""
    assert text, "it has no description"
    wrong = []
    for attribute, value in vars(kind).items():
        if attribute.startswith("_"):
            continue
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        function = getattr(function, "fget", None) or getattr(function, "func", None) or function
        if not inspect.isfunction(function):
            continue
        described = inspect.getdoc(function) or ""
        if not described:
            wrong.append(f"{attribute} has no description")
        wrong += [f"{attribute}: {each}" for each in _undocumented(function, described + text)]
    assert wrong == []
    if dataclasses.is_dataclass(kind):
        assert all(each.type for each in dataclasses.fields(kind))


@pytest.mark.parametrize("name", [each for each in _CLASSES if issubclass(getattr(stasis, each), Table)])
def test_each_key_of_a_table_has_its_meaning(name: str) -> None:
    table = getattr(stasis, name)
    frame = table.described().to_polars()
    assert frame["field"].to_list() == [each.name for each in table.key_fields().values()]
    assert [row["key"] for row in frame.to_dicts() if not row["meaning"]] == []


def test_a_meaning_is_the_programs() -> None:
    rows = {row["field"]: row for row in stasis.Drive.described().to_polars().to_dicts()}
    assert "logical block" in rows["block_size"]["meaning"].lower()
    assert rows["block_size"]["key"] == "block-size"


def test_the_package_says_that_it_is_typed() -> None:
    from importlib import resources

    assert (resources.files("stasis") / "py.typed").is_file()


def test_there_is_something_to_look_at() -> None:
    assert len(_FUNCTIONS) >= 8
    assert len(_CLASSES) >= 15
