"""Operators in a kernel body: computed where both sides are known, else followed by their types."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import cast

from tilejit.dtypes import BOOL
from tilejit.errors import UnsupportedFeatureError
from tilejit.frontend import fold
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.plain import is_settled
from tilejit.jit.specialize import infer
from tilejit.jit.specialize.expressions import Expressions
from tilejit.jit.specialize.iterate import check_order, known_key, place_of
from tilejit.jit.specialize.nodes import at, evaluated
from tilejit.jit.specialize.owned import kind_of, taken_over
from tilejit.jit.specialize.typed import operated
from tilejit.jit.specialize.values import Abstract, Extent, Items, RuntimeValue, Static, Unknown, joined, without_value
from tilejit.jit.specialize.walk import Folded
from tilejit.types.values import BufferType, TileType

_BY_VALUE = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class Operators(Expressions):
    """Expressions of one function, operators among them."""

    def binary(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.BinOp)
        (left_node, left), (right_node, right) = self.fold(node.left), self.fold(node.right)
        new = at(ast.BinOp(left_node, node.op, right_node), node)
        if isinstance(left, Static) and isinstance(right, Static):
            return new, self.computed(node, node.op, fold.BINARY[type(node.op)], left, right)
        return new, infer.operator(type(node.op).__name__, self.opened(left), self.opened(right), self.specializer.fresh)

    def computed(self, node: ast.expr, op: ast.AST, function: Callable[..., object], *operands: Static) -> Static:
        values = [operand.value for operand in operands]
        writes = type(op) is ast.Mod and type(values[0]) in (str, bytes)
        if writes:
            check_order(self, values[1], node)
        if any(map(holds_handle, values)) or (writes and not is_settled(values[1])):
            value = self.specializer.trace.ask("operator", type(op).__name__, *values, path=f"`{ast.unparse(node)}`")
            if is_handle(value) and all(any(kind_of(self, item) is one for one in (list, dict, int)) for item in values):
                value = taken_over(self, value, node)
        else:
            value = evaluated(node, function, *values)
        value = operated(value, op, *values) if any(operand.dtype is not None for operand in operands) else value
        return Static(value, local=any(operand.local for operand in operands))

    def unary(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.UnaryOp)
        operand_node, operand = self.fold(node.operand)
        new = at(ast.UnaryOp(node.op, operand_node), node)
        if isinstance(operand, Static):
            return new, self.computed(node, node.op, fold.UNARY[type(node.op)], operand)
        if isinstance(operand, (BufferType, TileType)):
            return new, infer.inverted(operand) if isinstance(node.op, ast.Invert) else operand
        if isinstance(node.op, ast.USub) and isinstance(operand, Extent):
            return new, infer.operator("Mult", operand, Static(-1), self.specializer.fresh)
        return new, RuntimeValue(BOOL) if isinstance(node.op, ast.Not) else without_value(operand)

    def compare(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Compare)
        folded = [self.fold(node.left)]
        result: object = True
        for op, item in zip(node.ops, node.comparators, strict=True):
            certain = len(folded) == 1 or all(isinstance(value, Static) for _, value in folded)
            folded.append(self.fold(item) if certain else self._perhaps(item))
            (_, left), (_, right) = folded[-2:]
            if all(isinstance(value, Static) for _, value in folded):
                result = self.computed(node, op, fold.COMPARE[type(op)], cast("Static", left), cast("Static", right)).value
                if len(node.ops) > 1 and not self.truth(Static(result), node):
                    break  # as in Python: what follows is not looked at
        if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops) and any(isinstance(value, Items) and value.names for _, value in folded[1:]):
            what = "`is` of a container with tensors in it, which was taken apart where it was passed"
            raise self.located(UnsupportedFeatureError(what, help="compare their members, or pass a flag"), node)
        views = [_is_view(item, text) for item, (text, _) in zip([node.left, *node.comparators], folded, strict=False)]
        if any(any(pair) and isinstance(op, _BY_VALUE) for op, pair in zip(node.ops, pairwise(views), strict=False)):
            what = f"`{ast.unparse(node)}` compares the keys or members of a dict with values of the run, which are a tuple here"
            raise self.located(UnsupportedFeatureError(what, help="compare lists: list(…) of each side"), node)
        new = at(ast.Compare(folded[0][0], list(node.ops)[: len(folded) - 1], [item for item, _ in folded[1:]]), node)
        statics = [value for _, value in folded if isinstance(value, Static)]
        if len(node.ops) == 1 and (decided := self._decided(node, folded[0][1], folded[1][1])) is not None:
            return new, Static(decided)
        if len(statics) != len(folded):
            sides = [self.opened(value) for _, value in folded]
            parts = [infer.comparison(type(op).__name__, left, right) for op, left, right in zip(node.ops, sides, sides[1:], strict=False)]
            return new, functools.reduce(infer.chained, parts)
        by_identity = any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)  # of which the text, where names are bound anew, says nothing
        return new, Static(result, local=not by_identity and any(value.local for value in statics))

    def _decided(self, node: ast.Compare, left: Abstract, right: Abstract) -> bool | None:
        """`bias is None` of something that exists at run time, and `"q" in weights`: known while compiling."""
        op = node.ops[0]
        if isinstance(op, ast.Is | ast.IsNot) and isinstance(right, Static) and right.value is None and not isinstance(left, Static | Unknown):
            return isinstance(op, ast.IsNot)
        if isinstance(op, ast.In | ast.NotIn) and isinstance(left, Static) and isinstance(right, Items) and right.is_dict:
            key = known_key(self, left.value)
            return None if holds_handle(key) else (place_of(self, right, key, node) is not None) is isinstance(op, ast.In)
        return None

    def logical(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.BoolOp)
        decisive = isinstance(node.op, ast.Or)
        folded: list[Folded] = []
        for item in node.values:
            folded.append(self._perhaps(item) if any(not isinstance(value, Static) for _, value in folded) else self.fold(item))
            value = folded[-1][1]
            if isinstance(value, Static) and item is not node.values[-1] and self.truth(value, item) is decisive:
                break  # as in Python: what follows is not looked at
        statics = [value for _, value in folded if isinstance(value, Static)]
        if len(statics) == len(folded):
            new = at(ast.BoolOp(node.op, [item for item, _ in folded]), node) if len(folded) > 1 else folded[0][0]
            return new, Static(statics[-1].value, local=any(value.local for value in statics))
        last, value = folded[-1]
        if isinstance(value, Static) and type(value.value) is not bool and any(part is node for part in tested(self.definition.text.node)):
            last = self.after_calls(last, at(ast.Constant(self.truth(value, node.values[len(folded) - 1])), last))  # the rest is for the front end to refuse
        operands = [last]
        for item, value in reversed(folded[:-1]):
            if isinstance(value, Static) and not value.local:
                operands[0] = self.after_calls(item, operands[0])
            else:
                operands.insert(0, item)
        return (at(ast.BoolOp(node.op, operands), node) if len(operands) > 1 else operands[0]), RuntimeValue(BOOL)

    def conditional(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.IfExp)
        test_node, test = self.fold(node.test)
        if isinstance(test, Static):
            text, value = self.fold(node.body if self.truth(test, node.test) else node.orelse)
            return self.after_calls(test_node, text), value
        (body, one), (orelse, other) = self._perhaps(node.body), self._perhaps(node.orelse)
        return at(ast.IfExp(test_node, body, orelse), node), without_value(joined(self.opened(one), self.opened(other)))

    def _perhaps(self, node: ast.expr) -> Folded:
        """An expression that the run may skip."""
        self.undecided += 1
        self.skippable += 1
        try:
            return self.fold(node)
        finally:
            self.undecided -= 1
            self.skippable -= 1


def tested(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions of a function of which only the truth matters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield from _truths(node.test)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from _truths(node.operand)


def _truths(node: ast.expr) -> Iterator[ast.expr]:
    yield node
    if isinstance(node, ast.BoolOp):
        for item in node.values:
            yield from _truths(item)


def _is_view(node: ast.expr, text: ast.expr) -> bool:
    """Whether `w.keys()` became a tuple, which is equal to other things than Python's."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "values", "items") and isinstance(text, ast.Tuple)
