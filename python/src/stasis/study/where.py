"""Conditions on a point: a small language of comparisons over the axes."""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..errors import StudyError

__all__ = ["Condition"]

_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


class Condition:
    """``seed < 3 and drive.ssd.model.gc.policy == "greedy"``. An axis is meant by its key, with
    ``_`` for ``-``, or by the last part of the key where no other axis has it."""

    def __init__(self, text: str, axes: Sequence[str]) -> None:
        self._text = text
        self._names = _names(axes)
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            raise StudyError(f"where = {text!r} cannot be read: {error.msg}") from error

    def __call__(self, point: Mapping[str, Any]) -> bool:
        """Whether a point is one of the study's."""
        try:
            return bool(self._value(self._tree, point))
        except (TypeError, ZeroDivisionError) as error:
            raise StudyError(f"where = {self._text!r} does not fit the point {dict(point)!r}: {error}") from error

    def _value(self, node: ast.AST, point: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute)):
            return point[self._axis(_dotted(node))]
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self._value(each, point) for each in node.elts]
        if isinstance(node, ast.BoolOp):
            combine = all if isinstance(node.op, ast.And) else any
            return combine(self._value(each, point) for each in node.values)
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand, point)
            if isinstance(node.op, ast.Not):
                return not value
            if isinstance(node.op, ast.USub):
                return -value
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _BINARY[type(node.op)](self._value(node.left, point), self._value(node.right, point))
        if isinstance(node, ast.Compare) and all(type(each) in _COMPARE for each in node.ops):
            left = self._value(node.left, point)
            for operation, each in zip(node.ops, node.comparators):
                right = self._value(each, point)
                if not _COMPARE[type(operation)](left, right):
                    return False
                left = right
            return True
        raise StudyError(
            f"where = {self._text!r} has what a condition cannot have: `{ast.unparse(node)}`; "
            "it has comparisons, and, or, not, in, + - * / // %, numbers and texts"
        )

    def _axis(self, name: str) -> str:
        if name in self._names:
            return self._names[name]
        near = difflib.get_close_matches(name, self._names, n=1, cutoff=0.3)
        hint = f"did you mean `{near[0]}`?" if near else "the study has no axes"
        raise StudyError(f"where = {self._text!r} names `{name}`, which is no axis; {hint}")


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)


def _names(axes: Sequence[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for length in (1, 2, 3):
        ends: dict[str, list[str]] = {}
        for axis in axes:
            ends.setdefault(".".join(axis.split(".")[-length:]), []).append(axis)
        names.update({end: owners[0] for end, owners in ends.items() if len(owners) == 1})
    names.update({axis: axis for axis in axes})
    return {name.replace("-", "_"): axis for name, axis in names.items()}
