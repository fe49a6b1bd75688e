"""`and` and `or`: of what is known while compiling they are Python's, of what only the run knows they combine flags."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.errors import ParserTypeError
from tilejit.frontend import branches
from tilejit.frontend.guards import may_fail
from tilejit.frontend.scalars import COMPARED
from tilejit.frontend.values import describe_value, is_number, is_static

if TYPE_CHECKING:
    from tilejit.frontend.context import Context


def boolean(ctx: Context, node: ast.BoolOp) -> object:
    """An `and` or `or`: decided while compiling where the first operands are known, else a flag."""
    absorbing = isinstance(node.op, ast.Or)
    values: list[object] = []
    for position, item in enumerate(node.values):
        if position and may_fail(item) and not all(map(is_static, values)):
            return _guarded(ctx, node, values, position)
        value = ctx.value(item)
        values.append(value)
        if not isinstance(value, SSAValue) and bool(value) is absorbing:
            break  # Decided while compiling: as in Python, the rest is not looked at.
    if not any(isinstance(value, SSAValue) for value in values):  # of a container only the size counts
        return values[-1]
    word = "and" if isinstance(node.op, ast.And) else "or"
    conditions = _conditions(ctx, node, values, word)
    if any(isinstance(c, bool) and c is absorbing for c in conditions):
        return absorbing
    live = [c for c in conditions if not isinstance(c, bool)]
    result = live[0]
    for value in live[1:]:
        result = ctx.scalar_op("and_" if word == "and" else "or_", result, value)
    return result


def _conditions(ctx: Context, node: ast.BoolOp, values: Sequence[object], word: str) -> list[SSAValue | bool]:
    """The first operands of `and` or `or` as flags."""
    out: list[SSAValue | bool] = []
    for item, value in zip(node.values, values, strict=False):
        try:
            out.append(ctx.condition(value, f"an operand of `{word}`"))
        except ParserTypeError as error:
            if error.hint == COMPARED:
                error.hint = _of_a_number(node, item)
            raise
    last = values[-1]
    if is_static(last) and not is_number(last):  # it would be the result, which is a flag here
        text = ast.unparse(node.values[len(values) - 1])
        help = f"write `{text} if … else …`, or as a flag `bool({text})`"
        raise ParserTypeError(f"an operand of `{word}` must be a BOOL, got {describe_value(last)}", help=help)
    return out


def _of_a_number(node: ast.BoolOp, item: ast.expr) -> str:
    """What to write for `n or 4`, as a flag and as a number."""
    text = ast.unparse(item)
    first, *rest = (ast.unparse(value) for value in node.values)
    help = f"as a flag write `{text} != 0`"
    if item is not node.values[0] or len(rest) != 1:
        return help
    either = (first, rest[0]) if isinstance(node.op, ast.Or) else (rest[0], first)
    return f"{help}; as a number `{either[0]} if {first} != 0 else {either[1]}`"


def _guarded(ctx: Context, node: ast.BoolOp, values: Sequence[object], position: int) -> object:
    """`i < n and x[i] > 0`: what follows the first operands is looked at only where they leave it open."""
    word, absorbing = ("or", True) if isinstance(node.op, ast.Or) else ("and", False)
    conditions = _conditions(ctx, node, values, word)
    later = node.values[position:]
    rest = later[0] if len(later) == 1 else ast.copy_location(ast.BoolOp(node.op, later), node)
    undecided = [condition for condition in conditions if not isinstance(condition, bool)]
    if not undecided:  # a list or tuple with values of the run in it is true, or not, whatever they are
        return absorbing if absorbing in conditions else ctx.value(rest)
    first = functools.reduce(lambda one, other: ctx.scalar_op(f"{word}_", one, other), undecided)
    sides = (lambda: ctx.value(rest)), (lambda: absorbing)
    return branches.choose(ctx, first, *(sides[::-1] if absorbing else sides))
