"""Lists and dicts that values of the run are put into: `tiles.append(t)` binds the name anew, which is the same where it is the only name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from operator import delitem, setitem
from typing import TYPE_CHECKING

from tilejit.jit.reads.handles import is_handle
from tilejit.jit.reads.questions import holds_made
from tilejit.jit.specialize.dependencies import resolve
from tilejit.jit.specialize.iterate import member_nodes, static_node
from tilejit.jit.specialize.mappings import dict_of, members
from tilejit.jit.specialize.nodes import at, evaluated
from tilejit.jit.specialize.values import UNKNOWN, Items, RuntimeValue, Static, as_local, members_of
from tilejit.ops.spec import OpFunction

if TYPE_CHECKING:
    from tilejit.jit.specialize.expressions import Expressions
    from tilejit.jit.specialize.walk import Folded

GROWING = frozenset({"append", "extend", "insert"})
"""Methods that put something into a list."""
_PASSING = (enumerate, zip, reversed)
"""Functions of Python that go through a list."""
_READING = (*_PASSING, len, list, tuple, sum, min, max, any, all, sorted, bool)
"""Functions of Python whose result is never the list itself."""


def makes_container(node: ast.expr) -> bool:
    """Whether an expression gives a list or dict that nothing else has a name for."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mult) and (makes_container(node.left) or makes_container(node.right))
    return isinstance(node, ast.List | ast.ListComp | ast.Dict | ast.DictComp)


def grown(body: Expressions, name: str, method: str, args: Sequence[Folded], place: ast.expr) -> Folded | None:
    """The list with what the method puts into it; None: that is not known here, or the list may be seen under another name."""
    old, added = _old(body, name, args, place), _added(body, method, args, place)
    if isinstance(old, dict) or added is None or any(map(_may_change, added[1])):
        return None
    where, new = added
    if old is not None:
        items = [*old[:where], *new, *old[where:]] if where is not None else [*old, *new]
        return _listed(items, place)
    if where is not None or isinstance(body.env.get(name), Static | Items) or not _stands_alone(body, name, args):
        return None
    start = at(ast.Starred(at(ast.Name(name, ast.Load()), place), ast.Load()), place)
    return at(ast.List([start, *(text for text, _ in new)], ast.Load()), place), UNKNOWN


def replaced(body: Expressions, name: str, key: object, item: Folded | None, place: ast.expr) -> Folded | None:
    """The list or dict with another member, or without one; None: as above."""
    old = _old(body, name, [item] if item is not None else [], place)
    if old is None or (item is not None and _may_change(item)) or isinstance(key, slice):
        return None
    if item is None:
        evaluated(place, delitem, old, key)
    else:
        evaluated(place, setitem, old, key, item)
    if isinstance(old, dict):
        return dict_of(body, [((static_node(body, known, place), Static(known)), held) for known, held in old.items()], place)
    return _listed(old, place)


def _stands_alone(body: Expressions, name: str, args: Sequence[Folded]) -> bool:
    if name not in body.fresh_lists or name in body.inlined or not has_no_other_name(body, name):
        return False
    return not any(isinstance(value, RuntimeValue) and value.unrolled for _, value in args)  # a number that is known once the loop is expanded


def _old(body: Expressions, name: str, args: Sequence[Folded], place: ast.expr) -> list[Folded] | dict[object, Folded] | None:
    """What a list or dict has in it now, if it may be bound anew."""
    held = body.env.get(name, UNKNOWN)
    if not isinstance(held, Static | Items) or not _stands_alone(body, name, args):
        return None
    found: list[Folded] | dict[object, Folded] | None
    if isinstance(held, Items) and not held.is_dict:
        found = [(_of(name, ast.Constant(index), place), item) for index, item in enumerate(held.items)]
    elif isinstance(held, Static) and isinstance(held.value, list):
        found = [(static_node(body, item.value, place), item) for item in members_of(held) if isinstance(item, Static)]
    else:
        found = members(body, at(ast.Name(name, ast.Load()), place), held, place)
    return None if any(map(_may_change, found.values() if isinstance(found, dict) else found or ())) else found


def _listed(items: Sequence[Folded], place: ast.expr) -> Folded:
    return at(ast.List([text for text, _ in items], ast.Load()), place), Items(tuple(as_local(value) for _, value in items))


def _of(name: str, index: ast.expr, place: ast.expr) -> ast.expr:
    return ast.fix_missing_locations(at(ast.Subscript(ast.Name(name, ast.Load()), index, ast.Load()), place))


def _may_change(item: Folded) -> bool:
    """Whether a compile-time value has a list or dict in it, which the new list would have as it is now."""
    return isinstance(item[1], Static) and holds_made(item[1].value)


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
    """Whether nothing in the function gives a list or dict another name, or goes through it while it grows."""
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
            return makes_container(value)
        case ast.AnnAssign(value=value):
            return use is parent.target and value is not None and makes_container(value)
        case ast.AugAssign():
            return use is parent.target
        case ast.Attribute():
            statement = around[1] if len(around) > 1 else None
            called = isinstance(outer, ast.Call) and outer.func is parent
            if called and parent.attr in ("items", "keys", "values"):
                return isinstance(statement, ast.For | ast.comprehension) and statement.iter is outer
            return called and ((parent.attr in GROWING and isinstance(statement, ast.Expr)) or parent.attr == "get")
        case ast.Subscript():
            return parent.value is use
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
