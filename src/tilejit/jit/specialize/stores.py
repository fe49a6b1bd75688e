"""`values[0] = 5`, `values[0] += 1` and `del values[0]` of lists and dicts that a kernel made: done while compiling, or the name is bound anew."""

from __future__ import annotations

import ast
import copy
import operator
from typing import TYPE_CHECKING, cast

from tilejit.jit.specialize.growing import replaced
from tilejit.jit.specialize.iterate import check_order
from tilejit.jit.specialize.mappings import check_keys
from tilejit.jit.specialize.nodes import at, evaluated
from tilejit.jit.specialize.values import Items, RuntimeValue, Static, parts_of

if TYPE_CHECKING:
    from tilejit.jit.specialize.assignments import Assignments
    from tilejit.jit.specialize.walk import Folded


def is_member(body: Assignments, target: ast.AST) -> bool:
    """Whether a target is a member of a list or dict that the kernel made."""
    if not isinstance(target, ast.Subscript) or not isinstance(target.ctx, ast.Store | ast.Del):
        return False
    held = body.fold(target.value)[1]
    if isinstance(held, Items):
        return held.is_dict or (isinstance(target.value, ast.Name) and target.value.id in body.listed)
    return isinstance(held, Static) and isinstance(held.value, list | dict)


def put(body: Assignments, target: ast.Subscript, item: Folded, node: ast.stmt) -> list[ast.stmt]:
    """Give a list or dict another member."""
    return _done(body, target, item, node)


def taken_out(body: Assignments, target: ast.Subscript, node: ast.Delete) -> list[ast.stmt]:
    """`del values[0]`."""
    return _done(body, target, None, node)


def _done(body: Assignments, target: ast.Subscript, item: Folded | None, node: ast.stmt) -> list[ast.stmt]:
    held, key = body.fold(target.value)[1], body.index(target.slice)
    name = target.value.id if isinstance(target.value, ast.Name) else ""
    if isinstance(key, Static):
        check_keys(body, [key.value], target.slice)
        if isinstance(held, Static) and (item is None or isinstance(item[1], Static)):
            put = item[1].value if item is not None and isinstance(item[1], Static) else None
            body.refuse_change(node, held.value, parts_of(put) if isinstance(key.value, slice) else (put,))
            if item is None:
                evaluated(target, operator.delitem, held.value, key.value)
            else:
                value = cast("Static", item[1]).value
                if isinstance(key.value, slice):
                    check_order(body, value, target)
                evaluated(target, operator.setitem, held.value, key.value, value)
            body.note_change(held.value)
            return []
        other = replaced(body, name, key.value, item, target) if name in body.listed else None
        if other is not None:
            body.changes += 1
            return [at(ast.Assign([body.target(at(ast.Name(name, ast.Store()), target), other[1])], other[0]), node)]
    kind = "dict" if (held.is_dict if isinstance(held, Items) else isinstance(cast("Static", held).value, dict)) else "list"
    raise body.kept_at_run_time(node, target.value, kind, [item[1] if item is not None else key])


def added_to(body: Assignments, target: ast.Subscript, node: ast.AugAssign) -> list[ast.stmt]:
    """`values[0] += 1`: the member is a list that changes, or is replaced."""
    read = at(ast.Subscript(copy.deepcopy(target.value), copy.deepcopy(target.slice), ast.Load()), target)
    held = body.fold(read)[1]
    if isinstance(held, Static) and isinstance(held.value, list | dict):
        return body.extended(node, cast("list[object] | dict[object, object]", held.value))
    if isinstance(held, Static | RuntimeValue):
        return body.assign(at(ast.Assign([target], at(ast.BinOp(read, node.op, node.value), node)), node))
    name = at(ast.Name(body.free_name("part"), ast.Store()), target)  # a tensor is changed itself, under all its names
    member = at(ast.Assign([body.target(name, held)], body.rewrite(read)), node)
    added = body.augmented(at(ast.AugAssign(name, node.op, node.value), node))
    return [member, *added, *put(body, target, (at(ast.Name(name.id, ast.Load()), target), body.env[name.id]), node)]
