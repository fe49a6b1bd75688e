"""Nodes of specialised kernels: made at the place of what they stand for, and evaluated while compiling."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar

from tilejit.frontend import fold

_Placed = TypeVar("_Placed", bound=ast.expr | ast.stmt | ast.arg | ast.keyword)


def at(new: _Placed, place: ast.AST) -> _Placed:
    """`new` at the position of `place`."""
    new.lineno, new.col_offset = place.lineno, place.col_offset  # type: ignore[attr-defined]
    new.end_lineno, new.end_col_offset = place.end_lineno, place.end_col_offset  # type: ignore[attr-defined]
    return new


def relocated(node: ast.expr, place: ast.AST) -> ast.expr:
    """`node` and everything below it at the position of `place`."""
    if isinstance(node, ast.Constant | ast.Name):
        return at(node, place)
    for child in ast.walk(node):
        if isinstance(child, ast.expr | ast.keyword):
            at(child, place)
    return node


def dotted(node: ast.expr) -> str:
    """The text of a name or attribute chain, quickly."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


def evaluated(node: ast.expr, function: Callable[..., object], *args: object) -> object:
    """`function(*args)` while compiling; the text of `node` is only made for an error."""
    try:
        return function(*args)
    except Exception:
        return fold.guarded(f"`{ast.unparse(node)}`", function, *args)
