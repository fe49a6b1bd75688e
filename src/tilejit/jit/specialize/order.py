"""What Python computes before a loop's first turn, or before the rest of a statement: it gets a name there, unless it reads the same later."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from tilejit.frontend.guards import may_fail
from tilejit.jit.specialize.dependencies import definition_of, resolve
from tilejit.jit.specialize.effects import is_op_with_effect
from tilejit.jit.specialize.nodes import at
from tilejit.jit.specialize.values import Items, Static
from tilejit.types.values import BufferType, TileType

if TYPE_CHECKING:
    from tilejit.jit.definition import Definition
    from tilejit.jit.specialize.expressions import Expressions
    from tilejit.jit.specialize.program import Specializer
    from tilejit.jit.specialize.walk import Folded, Walk

Keep = Callable[["Folded", bool], "Folded"]
"""What becomes of a member that is looked at before the first turn; whether it is one of a list that the loop goes through as it is by then."""


def as_it_stands(item: Folded, live: bool) -> Folded:
    return item


def named_before(body: Expressions, bound: Collection[str]) -> Keep:
    """Names for members, before the statement: all but names, constants and windows of names, and those too where `bound` has a name in them."""

    def keep(item: Folded, live: bool) -> Folded:
        text, value = item
        changes = any(isinstance(part, ast.Name) and part.id in bound for part in ast.walk(text))
        if isinstance(value, Static):
            return (body.named_first(text, value), value) if changes else item
        if isinstance(value, Items) and isinstance(text, ast.Tuple | ast.List) and len(text.elts) == len(value.items):
            parts = [keep(part, live) for part in zip(text.elts, value.items, strict=True)]
            return at(type(text)([part for part, _ in parts], ast.Load()), text), value
        if isinstance(value, Items) and isinstance(text, ast.Dict) and len(text.values) == len(value.items):
            parts = [keep(part, live) for part in zip(text.values, value.items, strict=True)]
            return at(ast.Dict(text.keys, [part for part, _ in parts]), text), value
        if not changes and (live or isinstance(text, ast.Name) or is_window(body, text)):
            return item
        return body.named_first(text, value), value

    return keep


def reads_the_same_later(body: Walk, text: ast.expr) -> bool:
    """Whether a text may be read after whatever the rest of its statement does: names, windows, and numbers made of names; parts of containers are theirs."""
    if isinstance(text, _PARTS) or is_window(body, text):
        return True
    of_tensors = any(isinstance(part, ast.Name) and isinstance(body.env.get(part.id), BufferType | TileType) for part in ast.walk(text))
    return not of_tensors and not may_fail(text)


_PARTS = (ast.Name, ast.Constant, ast.Attribute, ast.Tuple, ast.List, ast.Dict, ast.Starred, ast.Slice, ast.JoinedStr, ast.FormattedValue)


def is_window(body: Walk, text: ast.expr) -> bool:
    """`x[0:i, :]` of a tensor in memory: whoever reads it later sees what was written, as in Python."""
    if not isinstance(text, ast.Subscript) or not all(isinstance(part, _INDEX) for part in ast.walk(text.slice)):
        return False
    if isinstance(text.value, ast.Name):
        scalar = not any(isinstance(part, ast.Slice) for part in ast.walk(text.slice))
        return isinstance(body.env.get(text.value.id), BufferType) and not scalar
    return is_window(body, text.value)


_INDEX = (ast.Name, ast.Constant, ast.Slice, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)


def computed_first(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression computes before all else, from outside in."""
    yield node
    passes = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("enumerate", "zip", "reversed")
    for part in _in_order(node):
        yield from computed_first(part)
        if not passes and not _is_plain(part):
            break  # the next is computed after it


def _in_order(node: ast.expr) -> Sequence[ast.expr]:
    """The parts of an expression that are computed whatever comes, in their order."""
    match node:
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [node.generators[0].iter]
        case ast.List() | ast.Tuple():
            return node.elts
        case ast.Dict():
            return [part for row in zip(node.keys, node.values, strict=True) for part in row if part is not None]
        case ast.Call():
            return [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
        case ast.BinOp():
            return [node.left, node.right]
        case ast.Compare():
            return [node.left, node.comparators[0]]
        case ast.BoolOp():
            return node.values[:1]
        case ast.IfExp():
            return [node.test]
        case ast.Subscript():
            return [node.value, node.slice]
        case ast.Attribute() | ast.Starred():
            return [node.value]
        case ast.UnaryOp():
            return [node.operand]
        case _:
            return []


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression of the author's has the same value after whatever the rest of the statement does."""
    return all(isinstance(part, (ast.Name, ast.Constant, ast.Attribute, ast.List, ast.Tuple, ast.Load)) for part in ast.walk(node))


def may_act(call: ast.AST, body: Walk) -> bool:
    """Whether a call of the author's may do more than compute: told before it is specialised."""
    if not isinstance(call, ast.Call):
        return False
    helper = definition_of(resolve(call.func, body.reads))
    return is_op_with_effect(call.func) if helper is None else _acts(helper, body.specializer)


def _acts(definition: Definition, specializer: Specializer) -> bool:
    if definition not in specializer.may_act:
        specializer.may_act[definition] = False  # while it is looked at
        reads, nodes = specializer.reads(definition), definition.tree.nodes[1:]
        called = (definition_of(resolve(node.func, reads)) for node in nodes if isinstance(node, ast.Call))
        specializer.may_act[definition] = any(map(_is_deed, nodes)) or any(helper is not None and _acts(helper, specializer) for helper in called)
    return specializer.may_act[definition]


def _is_deed(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript | ast.Attribute):
        return not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Assert | ast.AugAssign) or (isinstance(node, ast.Call) and is_op_with_effect(node.func))


def order_matters(body: Walk, heads: Sequence[ast.AST], outermost: ast.expr | None) -> bool:
    """Whether calls in the expressions of a statement may change what the rest of it reads; the outermost one is computed last."""
    return any(node is not outermost and may_act(node, body) for head in heads for node in ast.walk(head))
