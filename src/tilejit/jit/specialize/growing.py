"""Lists that values of the run are put into: `tiles.append(t)` binds the name anew, which is the same where the list has no other name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from tilejit.jit.reads.handles import is_handle
from tilejit.jit.specialize.dependencies import resolve
from tilejit.jit.specialize.iterate import member_nodes, static_node
from tilejit.jit.specialize.nodes import at
from tilejit.jit.specialize.values import UNKNOWN, Items, RuntimeValue, Static, as_local, members_of
from tilejit.ops.spec import OpFunction

if TYPE_CHECKING:
    from tilejit.jit.specialize.expressions import Expressions, Folded

GROWING = frozenset({"append", "extend", "insert"})
"""Methods that put something into a list."""
_PASSING = (enumerate, zip, reversed)
"""Functions of Python that go through a list."""
_READING = (*_PASSING, len, list, tuple, sum, min, max, any, all, sorted, bool)
"""Functions of Python whose result is never the list itself."""


def makes_list(node: ast.expr) -> bool:
    """Whether an expression gives a list that nothing else has a name for."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mult) and (makes_list(node.left) or makes_list(node.right))
    return isinstance(node, ast.List | ast.ListComp)


def grown(body: Expressions, name: str, method: str, args: Sequence[Folded], place: ast.expr) -> Folded | None:
    """The list with what the method puts into it; None: that is not known here, or the list may be seen under another name."""
    held = body.env.get(name, UNKNOWN)
    if name not in body.fresh_lists or name in body.inlined or not has_no_other_name(body, name):
        return None
    if any(isinstance(value, RuntimeValue) and value.unrolled for _, value in args):
        return None  # a number that is known once the loop is expanded
    old: list[Folded] | None = None
    if isinstance(held, Static) and isinstance(held.value, list):
        old = [(static_node(body, item.value, place), item) for item in members_of(held) if isinstance(item, Static)]
    elif isinstance(held, Items):
        old = [(_of(name, ast.Constant(index), place), item) for index, item in enumerate(held.items)]
    added = _added(body, method, args, place)
    if added is None or any(isinstance(value, Static) and _may_change(value.value) for _, value in (*(old or ()), *added[1])):
        return None
    where, new = added
    if old is not None:
        items = [*old[:where], *new, *old[where:]] if where is not None else [*old, *new]
        return at(ast.List([text for text, _ in items], ast.Load()), place), Items(tuple(as_local(value) for _, value in items))
    if where is not None:
        return None
    start = at(ast.Starred(at(ast.Name(name, ast.Load()), place), ast.Load()), place)
    return at(ast.List([start, *(text for text, _ in new)], ast.Load()), place), UNKNOWN


def _of(name: str, index: ast.expr, place: ast.expr) -> ast.expr:
    return ast.fix_missing_locations(at(ast.Subscript(ast.Name(name, ast.Load()), index, ast.Load()), place))


def _may_change(value: object) -> bool:
    """Whether a compile-time value has a list or dict in it, which the new list would have as it is now."""
    return isinstance(value, list | dict) or (isinstance(value, tuple) and any(map(_may_change, cast("tuple[object, ...]", value))))


def _added(body: Expressions, method: str, args: Sequence[Folded], place: ast.expr) -> tuple[int | None, list[Folded]] | None:
    """Where a method puts what; None: not known here."""
    if method == "append" and len(args) == 1:
        return None, [args[0]]
    if method == "insert" and len(args) == 2:
        where = args[0][1]
        return (where.value, [args[1]]) if isinstance(where, Static) and isinstance(where.value, int) else None
    if method == "extend" and len(args) == 1:
        text, value = args[0]
        if isinstance(value, Static) and isinstance(value.value, tuple | list):
            return None, [(static_node(body, item.value, place), item) for item in members_of(value) if isinstance(item, Static)]
        nodes = member_nodes(body, text, value, place) if isinstance(value, Items) and not value.is_dict else None
        return (None, list(zip(nodes, members_of(value), strict=True))) if nodes is not None else None
    return None


# other names ----------------------------------------------------------------------------------------------------------


def has_no_other_name(body: Expressions, name: str) -> bool:
    """Whether nothing in the function gives a list another name, or goes through it while it grows."""
    function = body.definition.text.node
    return all(_harmless(body, name, trail) for trail in _uses(function, name, ()))


def _uses(node: ast.AST, name: str, around: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, ...]]:
    """Every place of a name, as the nodes around it, inner ones first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and child.id == name:
            yield (child, node, *around)
        else:
            yield from _uses(child, name, (node, *around))


def _harmless(body: Expressions, name: str, trail: tuple[ast.AST, ...]) -> bool:
    use, parent, *around = trail
    assert isinstance(use, ast.Name)
    if any(isinstance(node, ast.Lambda | ast.FunctionDef | ast.NamedExpr) for node in (parent, *around[:-1])):
        return False
    outer = around[0] if around else None
    match parent:
        case ast.Assign(targets=[target], value=value) if target is use:
            return makes_list(value)
        case ast.AnnAssign(value=value):
            return use is parent.target and value is not None and makes_list(value)
        case ast.AugAssign():
            return use is parent.target
        case ast.Attribute():
            statement = around[1] if len(around) > 1 else None
            return parent.attr in GROWING and isinstance(outer, ast.Call) and outer.func is parent and isinstance(statement, ast.Expr)
        case ast.Subscript():
            return parent.value is use and isinstance(parent.ctx, ast.Load)
        case ast.For():
            return parent.iter is use and not _grows(parent, name)
        case ast.comprehension():
            return parent.iter is use
        case ast.Call():
            callee = resolve(parent.func, body.reads)
            passed = not is_handle(callee) and any(callee is function for function in _PASSING)
            if passed and isinstance(outer, ast.For) and _grows(outer, name):
                return False
            known = isinstance(callee, OpFunction) or (not is_handle(callee) and any(callee is function for function in _READING))
            return known and parent.func is not use
        case _:
            return isinstance(parent, ast.Starred | ast.BinOp | ast.Compare | ast.Return) and isinstance(use.ctx, ast.Load)


def _grows(loop: ast.For, name: str) -> bool:
    """Whether a loop puts something into the list of that name."""
    for node in (inner for statement in loop.body for inner in ast.walk(statement)):
        changed = node.target if isinstance(node, ast.AugAssign) else node.value if isinstance(node, ast.Attribute) and node.attr in GROWING else None
        if isinstance(changed, ast.Name) and changed.id == name:
            return True
    return False
