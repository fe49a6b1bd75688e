"""Conditions of the run of which a part must not be looked at in vain: `i < n and x[i] > 0`."""

from __future__ import annotations

import ast

_HARMLESS = frozenset("pl.tensor.dim pl.cast pl.min pl.max pl.abs pl.const min max abs int float bool".split())
"""Calls that cannot fail and change nothing."""


def may_fail(node: ast.expr) -> bool:
    """Whether an expression reads memory, divides or calls something."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and ast.unparse(part.func) not in _HARMLESS:
            return True
        if isinstance(part, ast.Subscript) and not (isinstance(part.value, ast.Attribute) and part.value.attr == "shape"):
            return True
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div | ast.FloorDiv | ast.Mod) and not isinstance(part.right, ast.Constant):
            return True
    return False


def branches(test: ast.expr) -> bool:
    """Whether a condition is computed by branches."""
    for part in ast.walk(test):
        later = part.values[1:] if isinstance(part, ast.BoolOp) else part.comparators[1:] if isinstance(part, ast.Compare) else []
        if isinstance(part, ast.IfExp) or any(map(may_fail, later)):
            return True
    return False
