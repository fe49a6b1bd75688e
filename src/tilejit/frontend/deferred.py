"""Regions that wait without holding up the others: they stand last among the statements that nothing ties to them.

A region with `pld.system.defer_wait`, and in a `pl.manual_scope` one with `pld.system.wait`, is moved behind the statements that follow it, with everything
that depends on it: by `deps=`, by a name that it binds, or by a tensor that both mention. Signals tie nothing: who notifies must not come after who waits.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence, Set

_DEFER = "defer_wait"
_WAIT = "wait"
_SIGNALLED = frozenset((_DEFER, _WAIT, "notify", "get_comm_ctx"))
"""Calls whose first argument is a signal, or only asked for its group."""


def run_ahead(body: Sequence[ast.stmt], tensors: Set[str]) -> list[ast.stmt]:
    """The statements of a function, waiting ones last."""
    if not any(isinstance(node, ast.Call) and _name(node.func) in (_DEFER, "manual_scope") for statement in body for node in ast.walk(statement)):
        return list(body)
    return _ordered([_inside_scopes(statement, tensors) for statement in body], tensors, (_DEFER,))


def _inside_scopes(statement: ast.stmt, tensors: Set[str]) -> ast.stmt:
    """A manual scope, with the waiting regions in it last."""
    if isinstance(statement, ast.With) and any(
        isinstance(item.context_expr, ast.Call) and _name(item.context_expr.func) == "manual_scope" for item in statement.items
    ):
        return ast.copy_location(ast.With(statement.items, _ordered(statement.body, tensors, (_DEFER, _WAIT)), statement.type_comment), statement)
    return statement


def _ordered(body: Sequence[ast.stmt], tensors: Set[str], waits: Sequence[str]) -> list[ast.stmt]:
    early: list[ast.stmt] = []
    late: list[ast.stmt] = []
    bound: set[str] = set()
    touched: set[str] = set()
    last: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.Return):
            last.append(statement)
        elif _waits(statement, waits) or _read(statement) & bound or _tensors(statement, tensors) & touched:
            late.append(statement)
            bound |= _bound(statement)
            touched |= _tensors(statement, tensors)
        else:
            early.append(statement)
    return [*early, *late, *last]


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def _waits(statement: ast.stmt, names: Sequence[str]) -> bool:
    return any(isinstance(node, ast.Call) and _name(node.func) in names for node in ast.walk(statement))


def _read(statement: ast.stmt) -> set[str]:
    """Names from outside: what a statement binds itself, such as the variable of its loop, is its own."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)} - _bound(statement)


def _bound(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _tensors(statement: ast.stmt, tensors: Set[str]) -> set[str]:
    """The tensors that a statement mentions, other than as signals."""
    signals = {id(arg) for node in ast.walk(statement) if isinstance(node, ast.Call) and _name(node.func) in _SIGNALLED for arg in node.args[:1]}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and id(node) not in signals and node.id in tensors}
