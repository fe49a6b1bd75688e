"""Nodes of specialised kernels: made at the place of what they stand for, and evaluated while compiling."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
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
    at(node, place)
    if isinstance(node, ast.Attribute):
        relocated(node.value, place)
    elif isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            relocated(item, place)
    elif not isinstance(node, (ast.Constant, ast.Name)):
        for child in ast.walk(node):
            if isinstance(child, (ast.expr, ast.keyword)):
                at(child, place)
    return node


def dotted(node: ast.expr) -> str:
    """The text of a name or attribute chain, quickly."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


def constant_difference(upper: ast.expr, lower: ast.expr, spelled: Mapping[str, ast.expr]) -> int | None:
    """`upper - lower` if it is the same number whatever the names in them hold: `i * 16 + 16` minus `i * 16` is 16.

    `spelled`: names that stand for an expression wherever they are read.
    """
    terms = _terms(upper, spelled)
    for term, coefficient in _terms(lower, spelled).items():
        terms[term] = terms.get(term, 0) - coefficient
    constant = terms.pop("", 0)
    return constant if not any(terms.values()) else None


def _terms(node: ast.expr, spelled: Mapping[str, ast.expr]) -> dict[str, int]:
    """Coefficients of an index expression by the text of each term; that of the constant is empty."""
    if isinstance(node, ast.Name) and node.id in spelled:
        return _terms(spelled[node.id], spelled)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return {"": node.value}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return {term: -coefficient for term, coefficient in _terms(node.operand, spelled).items()}
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        sign, out = (1 if isinstance(node.op, ast.Add) else -1), _terms(node.left, spelled)
        for term, coefficient in _terms(node.right, spelled).items():
            out[term] = out.get(term, 0) + sign * coefficient
        return out
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for factor, other in ((node.left, node.right), (node.right, node.left)):
            known = _terms(factor, spelled)
            if set(known) <= {""}:
                return {term: coefficient * known.get("", 0) for term, coefficient in _terms(other, spelled).items()}
    return {ast.unparse(node): 1}


def is_index_expression(node: ast.expr) -> bool:
    """Whether an expression is made of names, integers, sums, differences and products alone."""
    return all(isinstance(part, (ast.Name, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Load, ast.Constant)) for part in ast.walk(node))


def evaluated(node: ast.expr, function: Callable[..., object], *args: object) -> object:
    """`function(*args)` while compiling; the text of `node` is only made for an error."""
    try:
        return function(*args)
    except Exception:
        return fold.guarded(f"`{ast.unparse(node)}`", function, *args)
